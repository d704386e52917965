import asyncio


class Ticker:
    def __init__(self, n):
        self.n = n

    async def __aenter__(self):
        print("open")
        return self

    async def __aexit__(self, kind, error, traceback):
        print("close", kind and kind.__name__)
        return kind is OverflowError

    async def ticks(self):
        try:
            for i in range(self.n):
                await asyncio.sleep(0)
                yield i
        finally:
            print("stopped at", i)


async def main():
    async with Ticker(3) as ticker:
        print([i * i async for i in ticker.ticks()])
        ticks = ticker.ticks()
        async for i in ticks:
            if i == 1:
                break
        await ticks.aclose()
        raise OverflowError("enough")
    task = asyncio.create_task(asyncio.sleep(30))
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        print("cancelled")


asyncio.run(main())
