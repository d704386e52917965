DISCOUNTS = {"tea": 1, "bread": 0}


def discount_for(item):
    # Nobody entered a discount for jam: this should be DISCOUNTS.get(item, 0).
    return DISCOUNTS[item]


def with_discount(item, price):
    return price - discount_for(item)
