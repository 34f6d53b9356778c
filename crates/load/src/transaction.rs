//! When a connection commits.

use std::time::{Duration, Instant};

/// When a connection commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commit {
    /// Every statement by itself: the server's autocommit.
    Auto,
    /// After the statement that brings the transaction to so many rows.
    Rows(u64),
    /// After the first statement that ends so long after the last commit.
    Every(Duration),
}

/// The transaction of a connection that commits by itself.
#[derive(Debug)]
pub(crate) struct Transaction {
    commit: Commit,
    rows: u64,
    due: Option<Instant>,
}

impl Transaction {
    /// The transaction of connection `number` of `of`. Their first commits are spread over the interval,
    /// so that those of several connections do not fall together.
    pub fn new(commit: Commit, start: Instant, number: u32, of: u32) -> Self {
        let due = match commit {
            Commit::Every(interval) => Some(start + interval.mul_f64(f64::from(number + 1) / f64::from(of))),
            _ => None,
        };
        Self { commit, rows: 0, due }
    }

    /// Rows were written.
    pub fn add(&mut self, rows: u64) {
        if self.commit != Commit::Auto {
            self.rows += rows;
        }
    }

    /// Whether something waits for a commit.
    pub fn is_open(&self) -> bool {
        self.rows > 0
    }

    /// Whether it is time to commit.
    pub fn is_due(&self, now: Instant) -> bool {
        self.is_open()
            && match self.commit {
                Commit::Auto => false,
                Commit::Rows(rows) => self.rows >= rows,
                Commit::Every(_) => self.due.is_some_and(|due| due <= now),
            }
    }

    /// When it must commit, if that is known and anything waits.
    pub fn due(&self) -> Option<Instant> {
        self.due.filter(|_| self.is_open())
    }

    /// It has ended, by COMMIT or ROLLBACK. Where that came before its time, as at the end of a window, the next
    /// one's time stays: connections that are made to commit together do not go on doing so.
    pub fn ended(&mut self, now: Instant) {
        self.rows = 0;
        if let Commit::Every(interval) = self.commit {
            if self.due.is_none_or(|due| due <= now) {
                self.due = Some(now + interval);
            }
        }
    }

    /// A pause is over: commits that would have come in it are left out, and the next keeps to its beat.
    pub fn resumed(&mut self, now: Instant) {
        if let (Commit::Every(interval), Some(due)) = (self.commit, self.due) {
            let late = now.saturating_duration_since(due).as_secs_f64();
            let beats = (late / interval.as_secs_f64()).ceil();
            self.due = Some(due + interval.mul_f64(beats));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn autocommit_leaves_nothing_open() {
        let start = Instant::now();
        let mut transaction = Transaction::new(Commit::Auto, start, 0, 1);
        transaction.add(5);
        assert!(!transaction.is_open() && !transaction.is_due(start + 9 * SECOND));
    }

    #[test]
    fn a_number_of_rows_is_due_when_it_is_reached() {
        let start = Instant::now();
        let mut transaction = Transaction::new(Commit::Rows(10), start, 0, 1);
        transaction.add(9);
        assert!(transaction.is_open() && !transaction.is_due(start));
        transaction.add(9);
        assert!(transaction.is_due(start));
        transaction.ended(start);
        assert!(!transaction.is_open() && !transaction.is_due(start));
    }

    #[test]
    fn an_interval_counts_from_the_last_commit_and_an_empty_one_is_never_due() {
        let start = Instant::now();
        let mut transaction = Transaction::new(Commit::Every(SECOND), start, 0, 1);
        assert!(!transaction.is_due(start + 2 * SECOND));
        transaction.add(1);
        assert_eq!(transaction.due(), Some(start + SECOND));
        assert!(!transaction.is_due(start + SECOND / 2));
        assert!(transaction.is_due(start + SECOND));
        transaction.ended(start + 3 * SECOND);
        transaction.add(1);
        assert!(!transaction.is_due(start + 3 * SECOND + SECOND / 2));
        assert!(transaction.is_due(start + 4 * SECOND));
    }

    #[test]
    fn a_commit_before_its_time_and_a_pause_leave_the_beat_as_it_was() {
        let start = Instant::now();
        let mut transaction = Transaction::new(Commit::Every(SECOND), start, 0, 4);
        transaction.add(1);
        transaction.ended(start + SECOND / 8);
        transaction.add(1);
        assert_eq!(transaction.due(), Some(start + SECOND / 4));
        transaction.ended(start + SECOND / 8);
        transaction.resumed(start + 5 * SECOND);
        transaction.add(1);
        assert_eq!(transaction.due(), Some(start + 5 * SECOND + SECOND / 4));
    }

    #[test]
    fn first_commits_are_spread_over_the_interval() {
        let start = Instant::now();
        let dues = [0, 1, 2, 3].map(|number| {
            let mut transaction = Transaction::new(Commit::Every(SECOND), start, number, 4);
            transaction.add(1);
            (transaction.due().unwrap() - start).as_millis()
        });
        assert_eq!(dues, [250, 500, 750, 1000]);
    }
}
