//! How the kernel schedules the load's threads.

use std::io;

/// The scheduling policy of the load's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// SCHED_BATCH: an answer that arrives does not preempt the server's threads.
    Batch,
    /// As the process was started, usually SCHED_OTHER.
    Normal,
}

impl Policy {
    /// Gives the calling thread this policy.
    #[allow(unsafe_code)] // one system call that no safe crate of ours has
    pub fn apply(self) -> io::Result<()> {
        if self == Self::Normal {
            return Ok(());
        }
        let priority = libc::sched_param { sched_priority: 0 };
        // SAFETY: the pointer is to a live, initialised value that the call only reads; 0 is this thread.
        match unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const priority) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy field of proc_pid_stat(5).
    fn policy_of_this_thread() -> String {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let after_name = stat.rsplit_once(") ").unwrap().1.to_owned();
        after_name.split(' ').nth(41 - 3).unwrap().to_owned()
    }

    #[test]
    fn a_batch_thread_is_one_to_the_kernel_and_only_that_thread() {
        let before = policy_of_this_thread();
        let inside = std::thread::spawn(|| {
            Policy::Normal.apply().unwrap();
            let normal = policy_of_this_thread();
            Policy::Batch.apply().unwrap();
            (normal, policy_of_this_thread())
        });
        assert_eq!(
            inside.join().unwrap(),
            (before.clone(), libc::SCHED_BATCH.to_string())
        );
        assert_eq!(policy_of_this_thread(), before);
    }
}
