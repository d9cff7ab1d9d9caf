"""A cache bounded by bytes: what it holds, and what it evicts."""

from app.dashboard.caches import ByteCache


def test_what_was_used_longest_ago_goes_first():
    cache = ByteCache[str](most_bytes=10, ttl_s=60.0)
    for key in "abc":
        cache.put(key, key.upper(), 4 if key != "c" else 3)
        cache.get("a")
    assert [cache.get(key) for key in "abc"] == ["A", None, "C"]
    assert cache.size == 7


def test_what_is_larger_than_the_cache_is_not_held_and_drives_nothing_out():
    cache = ByteCache[str](most_bytes=10, ttl_s=60.0)
    cache.put("small", "s", 5)
    cache.put("large", "l", 11)
    assert (cache.get("small"), cache.get("large"), cache.size) == ("s", None, 5)


def test_a_value_put_again_is_counted_once():
    cache = ByteCache[str](most_bytes=10, ttl_s=60.0)
    cache.put("a", "1", 6)
    cache.put("a", "2", 8)
    assert (cache.get("a"), cache.size) == ("2", 8)


def test_what_nobody_asks_for_is_let_go():
    clock = [0.0]
    cache = ByteCache[str](most_bytes=10, ttl_s=60.0, clock=lambda: clock[0])
    cache.put("used", "u", 1)
    cache.put("unused", "n", 1)
    clock[0] = 50.0
    cache.get("used")
    clock[0] = 100.0
    assert (cache.get("used"), cache.get("unused"), cache.size) == ("u", None, 1)
