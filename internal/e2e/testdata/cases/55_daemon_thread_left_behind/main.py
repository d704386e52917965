import queue
import threading

inbox, outbox = queue.Queue(), queue.Queue()
local = threading.local()


def serve():
    local.seen = 0
    while True:
        item = inbox.get()
        local.seen += 1
        outbox.put((item * 2, local.seen))


def reader(barrier, results, n):
    barrier.wait()
    results[n] = n * n


threading.Thread(target=serve, daemon=True).start()
for item in (1, 2, 3):
    inbox.put(item)
print([outbox.get() for _ in range(3)], hasattr(local, "seen"))
results = {}
barrier = threading.Barrier(3)
threads = [threading.Thread(target=reader, args=(barrier, results, n)) for n in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(results.items()))
