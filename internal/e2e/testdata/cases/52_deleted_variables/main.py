def shrink(items):
    first = items[0]
    del items[0]
    marker = "kept"
    del first
    try:
        int("seven")
    except ValueError as error:
        text = str(error)
    names = sorted(locals())
    return names


data = [3, 4, 5]
print(shrink(data), data)
del data
print("data" in globals())
print(data)
