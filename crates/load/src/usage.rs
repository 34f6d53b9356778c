//! What a thread takes: CPU time, context switches, and answers per wait. Others read it while the thread runs.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::time::{clock_gettime, ClockId};
use nix::unistd::{gettid, Pid};

use serde::{Deserialize, Serialize};

use crate::result::ClientCost;

/// Where the system time in clock ticks stands behind the name of a thread; the user time stands before it
/// (`proc_pid_stat(5)`: fields 14 and 15, of which the third is the first behind the name).
const SYSTEM_TICKS: usize = 15 - 3;

/// A thread whose usage is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thread(Pid);

impl Thread {
    /// The calling thread.
    pub fn current() -> Self {
        Self(gettid())
    }

    /// User and system time so far.
    pub fn cpu(self) -> Duration {
        // MAKE_THREAD_CPUCLOCK(tid, CPUCLOCK_SCHED) of the kernel's ABI
        // (include/linux/posix-timers_types.h); glibc's pthread_getcpuclockid makes the same id.
        let clock = ClockId::from_raw((!self.0.as_raw() << 3) | 0b110);
        clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
    }

    /// What the kernel counts of it; none without `/proc`. Reading takes tens of microseconds.
    pub fn accounts(self) -> Option<Accounts> {
        let read = |name| fs::read_to_string(format!("/proc/self/task/{}/{name}", self.0)).ok();
        Accounts::parse(&read("stat")?, &read("status")?)
    }
}

/// What the kernel counts of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Accounts {
    user_ticks: u64,
    system_ticks: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
}

impl Accounts {
    fn parse(stat: &str, status: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut ticks = fields.split(' ').skip(SYSTEM_TICKS - 1).map(str::parse);
        let switches = |name| {
            let mut lines = status.lines();
            lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        Some(Self {
            user_ticks: ticks.next()?.ok()?,
            system_ticks: ticks.next()?.ok()?,
            voluntary_switches: switches("voluntary_ctxt_switches:")?,
            involuntary_switches: switches("nonvoluntary_ctxt_switches:")?,
        })
    }
}

/// How often a thread waited for several connections, and how many of them were ready; written by that thread only.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    waits: AtomicU64,
    answers: AtomicU64,
}

impl Waits {
    /// Counts a wait that ended with so many connections ready.
    #[inline]
    pub fn add(&self, answers: usize) {
        let add = |to: &AtomicU64, more| to.store(to.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        add(&self.waits, 1);
        add(&self.answers, answers as u64);
    }

    /// Waits and answers so far.
    pub fn seen(&self) -> (u64, u64) {
        (
            self.waits.load(Ordering::Relaxed),
            self.answers.load(Ordering::Relaxed),
        )
    }
}

/// What a thread had taken at some moment.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub cpu: Duration,
    pub accounts: Option<Accounts>,
    /// Waits and answers.
    pub waits: (u64, u64),
}

impl Usage {
    /// What two threads had taken together; the kernel's accounts only if both have them.
    pub fn and(self, other: Self) -> Self {
        let accounts = self.accounts.zip(other.accounts);
        Self {
            cpu: self.cpu + other.cpu,
            accounts: accounts.map(|(one, two)| Accounts {
                user_ticks: one.user_ticks + two.user_ticks,
                system_ticks: one.system_ticks + two.system_ticks,
                voluntary_switches: one.voluntary_switches + two.voluntary_switches,
                involuntary_switches: one.involuntary_switches + two.involuntary_switches,
            }),
            waits: (self.waits.0 + other.waits.0, self.waits.1 + other.waits.1),
        }
    }

    /// What the thread took since `before`, in which `events` ended; none without the kernel's accounts.
    pub fn cost_since(&self, before: &Self, events: u64) -> Option<ClientCost> {
        let (begin, end) = (before.accounts?, self.accounts?);
        // The kernel splits the exact time by what ran at its ticks; so the shares are taken from the ticks, the
        // time from the exact clock.
        let user = end.user_ticks.saturating_sub(begin.user_ticks);
        let ticks = user + end.system_ticks.saturating_sub(begin.system_ticks);
        let cpu_us = self.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6;
        let user_us =
            (events > 0 && ticks > 0).then(|| cpu_us / events as f64 * (user as f64 / ticks as f64));
        let waits = self.waits.0 - before.waits.0;
        let answers = self.waits.1 - before.waits.1;
        Some(ClientCost {
            user_us_per_event: user_us,
            system_us_per_event: user_us.map(|user_us| cpu_us / events as f64 - user_us),
            voluntary_switches: end.voluntary_switches.saturating_sub(begin.voluntary_switches),
            involuntary_switches: end
                .involuntary_switches
                .saturating_sub(begin.involuntary_switches),
            waits,
            answers_per_wait: (waits > 0).then(|| answers as f64 / waits as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "71 (a) b) S 1 71 71 0 -1 4194624 312 0 2 0 30 70 0 0 20 0 2 0 812 146 9 18446744073709551615";
    const STATUS: &str = "Name:\ta) b\nvoluntary_ctxt_switches:\t412\nnonvoluntary_ctxt_switches:\t7\n";

    fn usage(cpu_ms: u64, ticks: (u64, u64), switches: (u64, u64), waits: (u64, u64)) -> Usage {
        Usage {
            cpu: Duration::from_millis(cpu_ms),
            accounts: Some(Accounts {
                user_ticks: ticks.0,
                system_ticks: ticks.1,
                voluntary_switches: switches.0,
                involuntary_switches: switches.1,
            }),
            waits,
        }
    }

    #[test]
    fn accounts_are_read_from_what_the_kernel_writes_whatever_the_thread_is_called() {
        let accounts = Accounts::parse(STAT, STATUS).unwrap();
        assert_eq!(Some(accounts), usage(0, (30, 70), (412, 7), (0, 0)).accounts);
        assert_eq!(Accounts::parse("71 (a) S 1", STATUS), None);
        assert_eq!(Accounts::parse(STAT, "Name:\ta\n"), None);
    }

    #[test]
    fn a_cost_is_what_came_between_two_readings() {
        let before = usage(1000, (30, 70), (400, 5), (10, 40));
        let after = usage(1100, (32, 78), (450, 6), (30, 140));
        let cost = after.cost_since(&before, 1000).unwrap();
        assert_eq!((cost.voluntary_switches, cost.involuntary_switches), (50, 1));
        assert_eq!((cost.waits, cost.answers_per_wait), (20, Some(5.0)));
        assert!((cost.user_us_per_event.unwrap() - 20.0).abs() < 1e-9);
        assert!((cost.system_us_per_event.unwrap() - 80.0).abs() < 1e-9);
    }

    #[test]
    fn what_cannot_be_known_is_absent() {
        let some = usage(1000, (30, 70), (400, 5), (10, 40));
        let cost = some.cost_since(&some, 0).unwrap();
        assert_eq!((cost.user_us_per_event, cost.system_us_per_event), (None, None));
        assert_eq!(cost.answers_per_wait, None);
        let unread = Usage {
            accounts: None,
            ..some
        };
        assert!(some.cost_since(&unread, 1).is_none() && unread.cost_since(&some, 1).is_none());
    }

    #[test]
    fn a_thread_that_sleeps_switches_and_one_that_works_takes_ticks() {
        let thread = Thread::current();
        let before = thread.accounts().unwrap();
        while thread.accounts().unwrap().voluntary_switches == before.voluntary_switches {
            std::thread::sleep(Duration::from_millis(1));
        }
        let ticks = |accounts: Accounts| accounts.user_ticks + accounts.system_ticks;
        while ticks(thread.accounts().unwrap()) == ticks(before) {
            std::hint::spin_loop();
        }
    }
}
