def paths(row, column, known={}):
    if row == 0 or column == 0:
        return 1
    key = (row, column)
    if key not in known:
        known[key] = paths(row - 1, column) + paths(row, column - 1)
    return known[key]


def plain(row, column):
    if row == 0 or column == 0:
        return 1
    return plain(row - 1, column) + plain(row, column - 1)


print(paths(4, 4), plain(4, 4))
