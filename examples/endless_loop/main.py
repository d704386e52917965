# Counts down to zero, or would: from an odd number, steps of two jump over
# zero and go on for ever. The time limit ends it, and the trace shows why.
left = 7
while left != 0:
    left = left - 2
print("done")
