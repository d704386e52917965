def grow(items):
    items.append(len(items))
    items = items + ["mine"]
    return items


board = [[0] * 2] * 2
board[0][1] = 7
names = ["a"]
alias = names
other = grow(names)
alias += ["b"]
print(board, names, alias is names, other)
matrix = [row[:] for row in board]
matrix[0][0] = 1
print(matrix, board)
table = {"rows": board}
table["rows"][1].append("end")
print(table)
