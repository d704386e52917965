name = "Ada"
print("hello, + name)
print("never")
