def smallest(rows):
    found = [low := min(row) for row in rows if row]
    return low, found


table = [[r * c for c in range(1, 4)] for r in range(1, 4)]
flat = [cell
        for row in table
        for cell in row
        if cell % 2]
print(table[2], flat)
print(smallest([[4, 2], [], [9, 7]]))
total = 0
sums = [total := total + n for n in flat]
print(total, sums, {n % 3: n for n in flat})
if any((hit := n) > 4 for n in flat):
    print("hit", hit)
print([n for n in range(3)], "n" in globals())
