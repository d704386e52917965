def add_up(lines):
    total = 0
    for line in lines:
        total += int(line)
    return total
