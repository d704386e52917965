print("starting")
ready = True
import settings
print("not reached")
