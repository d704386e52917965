source = """
def double(n):
    return n * 2

for i in range(3):
    made.append(double(i))
"""
made = []
exec(source)
print(made, eval("sum(made) + offset", {"made": made, "offset": 100, "sum": sum}))
space = {}
exec(compile("def halve(n):\n    return n // 2\n", "<formula>", "exec"), space)
print(space["halve"](9))
try:
    eval("1 +")
except SyntaxError as error:
    print("no formula:", error.msg)
exec("raise LookupError('from inside')")
