"""Failed logins: who waits for how long, and who does not."""

from __future__ import annotations

import pytest

from domain.limits import SECOND_NS
from gateway.guard.failed_logins import FORGOTTEN_NS, FailedLogins
from gateway.guard.settings import LimitsSettings

THERE, HERE = "10.0.0.1", "10.0.0.2"


class Scene:
    def __init__(self, limits: LimitsSettings | None = None) -> None:
        self.now = 10**15
        self.logins = FailedLogins(limits or LimitsSettings(), lambda: self.now)

    def fail(self, times: int, host: str = THERE, user: str = "root") -> None:
        for _ in range(times):
            self.logins.failed(host, user)

    def wait(self, host: str = THERE, user: str = "root", is_proven: bool = False) -> int:
        return self.logins.wait_s(host, user, is_proven)


def test_nine_failures_cost_nothing_and_the_tenth_makes_the_next_one_wait() -> None:
    scene = Scene()
    scene.fail(9)
    assert scene.wait() == 0
    scene.fail(1)
    assert scene.wait() == 1
    scene.now += SECOND_NS
    assert scene.wait() == 0, "one is looked at"


def test_the_wait_of_a_user_from_a_host_doubles_up_to_a_minute() -> None:
    scene = Scene()
    scene.fail(9)
    waits = []
    for _ in range(10):
        scene.fail(1)
        waits.append(scene.wait())
        scene.now += waits[-1] * SECOND_NS
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_logins_that_are_not_looked_at_make_nobody_wait_for_longer() -> None:
    scene = Scene()
    scene.fail(12)
    for _ in range(1_000):
        assert scene.wait() > 0
    scene.now += 4 * SECOND_NS
    assert scene.wait() == 0
    assert scene.logins.figures() == {"failed_logins_total": 12, "slowed_logins_total": 1_000, "failed_login_hosts": 1}


def test_nobody_locks_out_a_user_of_another_host() -> None:
    scene = Scene(LimitsSettings(lockout_failures=20))
    scene.fail(1_000)
    assert scene.wait(HERE) == 0


def test_other_users_of_a_host_wait_for_a_second_and_those_who_have_logged_in_do_not() -> None:
    scene = Scene()
    scene.fail(100)
    assert scene.wait(user="alice") == 1
    assert scene.wait(user="alice", is_proven=True) == 0
    assert scene.wait(user="root", is_proven=True) == 60, "but as the user who is guessed, from that host"


def test_who_tries_another_name_each_time_waits_too() -> None:
    scene = Scene()
    for number in range(10):
        scene.fail(1, user=f"user-{number}")
    assert scene.wait(user="another") == 1


def test_addresses_of_one_network_are_one_host() -> None:
    scene = Scene()
    for number in range(10):
        scene.fail(1, f"2001:db8::{number:x}")
    assert scene.wait("2001:db8::ffff") == 1
    assert scene.wait("2001:db8:0:1::1") == 0


def test_a_good_login_forgives_what_the_same_user_got_wrong_and_nothing_else() -> None:
    scene = Scene()
    scene.fail(8, user="alice")
    scene.fail(5, user="root")
    assert scene.wait(user="bob") == 1
    scene.logins.succeeded(THERE, "alice")
    scene.now += SECOND_NS
    scene.fail(4, user="root")
    assert scene.wait(user="bob") == 0, "nine failures are of root"
    scene.fail(1, user="root")
    assert scene.wait(user="bob") == 1
    assert scene.wait(user="root") == 1


def test_failures_are_forgotten_after_ten_minutes_without_one() -> None:
    scene = Scene()
    scene.fail(9)
    scene.now += FORGOTTEN_NS + 1
    scene.fail(9)
    assert scene.wait() == 0


def test_a_good_login_forgives_nothing_for_what_was_forgotten_before() -> None:
    scene = Scene()
    scene.fail(9, user="alice")
    scene.now += FORGOTTEN_NS + 1
    scene.fail(9, user="root")
    scene.logins.succeeded(THERE, "alice")
    scene.fail(1, user="carol")
    assert scene.wait(user="bob") == 1, "ten have failed within ten minutes"


def test_a_lock_out_is_for_who_sets_it() -> None:
    scene = Scene(LimitsSettings(failed_logins=0, lockout_failures=3, lockout_s=900))
    scene.fail(2)
    assert scene.wait() == 0
    scene.fail(1)
    assert scene.wait() == 900
    assert scene.wait(user="alice") == 0
    scene.now += 900 * SECOND_NS
    assert scene.wait() == 0


def test_both_are_off_with_zero_also_while_somebody_waits() -> None:
    scene = Scene()
    scene.fail(100)
    scene.logins.apply(LimitsSettings(failed_logins=0))
    assert scene.wait() == 0
    scene.fail(100)
    assert scene.wait() == 0
    assert scene.logins.is_idle
    assert scene.logins.count == 200, "they are counted all the same"


def test_the_tables_are_bounded_and_so_are_names() -> None:
    scene = Scene(LimitsSettings(keys_max=100))
    for number in range(1_000):
        scene.fail(1, f"10.0.{number // 250}.{number % 250}", "x" * 10_000 + str(number))
    assert len(scene.logins._hosts) == len(scene.logins._users) == 100
    assert max(len(user) for _, user in scene.logins._users) <= 128


def test_one_line_says_that_a_host_or_a_user_has_to_wait(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.fail(1_000)
    assert [line.split(":")[0] for line in caplog.messages] == [
        f"logins as user 'root' from {THERE} wait from now on", f"logins from {THERE} wait from now on",
    ]  # fmt: skip
