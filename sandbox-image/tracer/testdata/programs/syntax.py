print("never")
if True:
    value = (1,
        2
print("unclosed")
