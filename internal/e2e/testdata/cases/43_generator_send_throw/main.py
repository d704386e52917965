def averager():
    total = count = 0
    average = None
    while True:
        try:
            value = yield average
        except ValueError:
            total = count = 0
            average = None
            continue
        total += value
        count += 1
        average = total / count


def relay():
    try:
        result = yield from averager()
    finally:
        print("relay closed")
    return result


mean = relay()
next(mean)
print(mean.send(10), mean.send(20))
print(mean.throw(ValueError("start again")))
print(mean.send(7))
mean.close()
print("end")
