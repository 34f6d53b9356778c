//! The crash contract: runs are killed by SIGKILL at random moments.
//!
//! After each kill, a restart would find ([`logs::recover`])
//!
//! * every transaction that was acknowledged, under the GTID that its committer was told;
//! * GTIDs without a gap, no transaction twice;
//! * in the binlog just the bytes that the redo has of it.
//!
//! Some victims change their pipeline while they live. A victim in which nothing moves for ten seconds ends
//! itself: a hang is a failure here, not a victim.
//!
//! Then lives of random specs: transactions of 100 bytes to 4 MiB, small buffers, rotations, changes, 1 to 256
//! committers on as many or fewer threads; half of them are killed, the others end in good order, and all are judged
//! like that.
//!
//! The control runs with redo 0, which promises nothing: it must lose, or the harness would find nothing.
//!
//! `FLUSHLAB_COMMIT_KILLS` says how many kills each pipeline gets while it commits (5 unless told; `make
//! soak` takes 1,000); those that come before the first acknowledgement are counted apart.
//! `FLUSHLAB_COMMIT_STRESS_SECONDS` says how long random specs are tried (5 unless told; an hour in `make soak`).
//! `FLUSHLAB_COMMIT_SEED` is where the random numbers begin. This program is its own victim: called with a spec it
//! commits until it is killed.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flushlab_commitpath::{CommitPath, Spec};
use flushlab_rows::{Bits, Random};
use serde_json::{json, Value};

mod logs;

/// Longest wait for a victim's first acknowledgement, or for its end.
const LIMIT: Duration = Duration::from_secs(60);
/// The control needs no more kills than show that it loses.
const CONTROL_KILLS: u64 = 100;

fn main() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("commit-until-killed") {
        commit_until_killed(
            &arguments.next().expect("a spec"),
            &arguments.next().expect("a file"),
        );
    }
    let setting = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let kills = setting("FLUSHLAB_COMMIT_KILLS", 5);
    let seed = setting("FLUSHLAB_COMMIT_SEED", 1);
    for pipeline in ["serial", "parallel", "redo", "two-syncs"] {
        let tally = kill_often(pipeline, &promising(pipeline), kills, seed);
        println!("{pipeline}: {tally}");
        assert_eq!(tally.lost_in, 0, "{pipeline} lost what it had acknowledged");
    }
    let control = kill_often("control", &[(0, 1000)], kills.min(CONTROL_KILLS), seed);
    println!("control (serial, redo 0): {control}");
    assert!(
        control.lost_in > 0,
        "the control loses nothing: the harness cannot find a loss"
    );
    let seconds = setting("FLUSHLAB_COMMIT_STRESS_SECONDS", 5);
    println!("random specs: {}", stress(Duration::from_secs(seconds), seed));
}

/// `trx_commit` and `sync_binlog` of the settings that promise to survive the process.
fn promising(pipeline: &str) -> Vec<(u8, u32)> {
    match pipeline {
        "serial" => vec![(1, 1), (2, 1000), (3, 1), (1, 0), (2, 1)],
        "redo" | "two-syncs" => vec![(1, 1), (3, 1)],
        _ => vec![(1, 0), (2, 1000), (3, 1000), (2, 0)],
    }
}

/// The victim: commits until it is killed, or its spec's time is over. Acknowledged commits go into a file: GTID
/// number and XID, eight bytes each, by one write.
fn commit_until_killed(spec: &str, acknowledged: &str) -> ! {
    // Whoever started us is gone when our input ends: nobody would kill us.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
    let file = OpenOptions::new().append(true).open(acknowledged).unwrap();
    let observer = move |gtid_number: u64, xid: u64| {
        let pair = [gtid_number.to_le_bytes(), xid.to_le_bytes()];
        (&file).write_all(pair.as_flattened()).unwrap();
    };
    let run = CommitPath::new(Spec::from_json(spec.as_bytes()).unwrap());
    let mut run = run.observed(Arc::new(observer));
    run.start().unwrap();
    let ended = run.wait(Duration::from_secs(7200));
    assert!(matches!(ended, Ok(Some(_))), "the victim has failed: {ended:?}");
    std::process::exit(0);
}

/// What the kills of one pipeline came to.
#[derive(Debug, Default)]
struct Tally {
    /// Kills of victims that had acknowledged something, and of those that had not come to it.
    kills: u64,
    early_kills: u64,
    /// Kills that took acknowledged transactions.
    lost_in: u64,
    lost: u64,
    acknowledged: u64,
    rebuilt: u64,
    rolled_back: u64,
    cut_off: u64,
    torn: u64,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{} of {} kills lost acknowledged transactions",
            self.lost_in, self.kills
        )?;
        if self.lost_in == 0 {
            // Clopper and Pearson (1934) for none of N: p with (1 - p)^N = 0.05.
            let bound = 1.0 - 0.05_f64.powf(1.0 / self.kills as f64);
            write!(formatter, " (at 95 %: at most {:.2} %)", bound * 100.0)?;
        }
        write!(
            formatter,
            "; {} acknowledged, {} of them lost; recovery rebuilt {}, rolled back {}, cut off {}, {} torn tails; \
             {} more kills at the start",
            self.acknowledged,
            self.lost,
            self.rebuilt,
            self.rolled_back,
            self.cut_off,
            self.torn,
            self.early_kills
        )
    }
}

/// Kills runs of one pipeline until `kills` of them had acknowledged something.
fn kill_often(pipeline: &str, settings: &[(u8, u32)], kills: u64, seed: u64) -> Tally {
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    for number in 0.. {
        if tally.kills == kills {
            break;
        }
        let life = Life::new();
        let (trx_commit, sync_binlog) = settings[(number % settings.len() as u64) as usize];
        let strategy = if pipeline == "control" { "serial" } else { pipeline };
        let spec = life.spec(strategy, trx_commit, sync_binlog, &mut random);
        let context = format!("{pipeline}, kill {number} of seed {seed}: {spec}");
        life.die(&spec, &mut random, &context);
        life.judge(&mut tally, trx_commit > 0, &context);
    }
    tally
}

/// Lets runs of random specs live and end for so long.
fn stress(limit: Duration, seed: u64) -> Tally {
    let start = Instant::now();
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    for number in 0.. {
        if start.elapsed() >= limit {
            break;
        }
        let life = Life::new();
        let mut spec = life.random_spec(&mut random);
        let is_killed = random.below(2) == 0;
        if is_killed {
            // However late the kill comes on a busy machine, the run is not over before.
            spec["seconds"] = json!(3600.0);
        }
        let context = format!("life {number} of seed {seed}: {spec}");
        match is_killed {
            true => life.die(&spec, &mut random, &context),
            _ => life.end(&spec, &context),
        }
        life.judge(&mut tally, true, &context);
    }
    tally
}

/// One of a few.
fn of<T: Copy>(few: &[T], random: &mut Random) -> T {
    few[random.below(few.len() as u64) as usize]
}

/// Committers, and threads that drive them: as many, or fewer.
fn crowd(most: &[u64], random: &mut Random) -> (u64, u64) {
    let committers = of(most, random);
    (committers, of(&[committers, committers.min(2)], random))
}

const FORMATS: [&str; 4] = ["9.7.4", "8.0.44", "10.11.19-MariaDB-log", "11.8.6-MariaDB"];

/// A folder and the run in it.
struct Life(tempfile::TempDir);

impl Life {
    fn new() -> Self {
        let life = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(life.logs()).unwrap();
        File::create(life.acknowledged()).unwrap();
        life
    }

    fn logs(&self) -> PathBuf {
        self.0.path().join("logs")
    }

    fn acknowledged(&self) -> PathBuf {
        self.0.path().join("acknowledged")
    }

    /// Small buffers and files, so that all of them come round within milliseconds.
    fn spec(&self, strategy: &str, trx_commit: u8, sync_binlog: u32, random: &mut Random) -> Value {
        let shape = match random.below(5) {
            0 => json!({"kind": "oltp_insert", "tables": 3, "rows": 100}),
            1 => json!({"kind": "sizes", "redo_bytes": 300, "binlog_bytes": 400, "large_every": 40,
                        "large_bytes": 3_000_000}),
            2 => json!({"kind": "sizes", "redo_bytes": 300, "binlog_bytes": 100_000}),
            _ => json!({"kind": "oltp_update_non_index", "tables": 3, "rows": 200}),
        };
        let changes = match random.below(3) {
            0 if trx_commit > 0 => changes(300, random),
            _ => json!([]),
        };
        let (committers, threads) = crowd(&[1, 2, 8, 16, 64], random);
        json!({
            "directory": self.logs(), "changes": changes, "keep": true, "format": of(&FORMATS, random),
            "trx_commit": trx_commit, "sync_binlog": sync_binlog, "binlog_strategy": strategy,
            "threads": threads, "committers": committers, "shape": shape, "seconds": 3600.0,
            "seed": random.below(1 << 32), "rotate_bytes": of(&[1 << 30, 100_000, 1 << 20], random),
            "redo_capacity_bytes": 5 << 20, "stall_seconds": 10,
        })
    }

    /// Anything that a run may be asked for, with buffers that are soon full.
    fn random_spec(&self, random: &mut Random) -> Value {
        /// Of transactions under way, all together.
        const MOST_BYTES: u64 = 128 << 20;
        let strategy = of(&["serial", "parallel", "redo", "two-syncs"], random);
        let (trx_commit, sync_binlog) = of(&promising(strategy), random);
        let bytes = |least: u64, doublings: u64, random: &mut Random| {
            let about = least << random.below(doublings + 1);
            about + random.below(about / 2)
        };
        let binlog_bytes = bytes(300, 13, random);
        let (committers, threads) = crowd(&[1, 2, 3, 8, 16, 64, 128, 256], random);
        let committers = committers.min(MOST_BYTES / binlog_bytes).max(1);
        let shape = json!({
            "kind": "sizes", "redo_bytes": bytes(100, 9, random), "binlog_bytes": binlog_bytes,
            "large_every": of(&[0, 1, 3, 40], random), "large_bytes": bytes(100_000, 5, random),
        });
        json!({
            "directory": self.logs(), "changes": changes(of(&[3, 30, 300], random), random), "keep": true,
            "format": of(&FORMATS, random), "trx_commit": trx_commit, "sync_binlog": sync_binlog,
            "binlog_strategy": strategy, "threads": threads.min(committers), "committers": committers,
            "shape": shape, "seconds": 0.3, "seed": random.below(1 << 32),
            "rotate_bytes": of(&[1 << 30, 4096, 30_000, 1 << 20], random),
            "redo_capacity_bytes": of(&[4 << 20, 5 << 20, 16 << 20], random), "stall_seconds": 10,
        })
    }

    /// Commits in a process of its own until its time is over.
    fn end(&self, spec: &Value, context: &str) {
        let mut victim = self.begin(spec);
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = victim.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                victim.kill().unwrap();
                panic!("{context}: the run does not end");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        assert!(status.success(), "{context}: {status}");
    }

    /// Commits in a process of its own, and kills it: mostly after its first acknowledgement, sometimes while
    /// it starts.
    fn die(&self, spec: &Value, random: &mut Random, context: &str) {
        use std::os::unix::process::ExitStatusExt;
        let mut victim = self.begin(spec);
        let is_early = random.below(8) == 0;
        if is_early {
            std::thread::sleep(Duration::from_micros(random.below(20_000)));
        } else {
            let deadline = Instant::now() + LIMIT;
            while self.acknowledged().metadata().unwrap().len() == 0 {
                let ended = victim.try_wait().unwrap();
                assert!(ended.is_none(), "{context}: the victim has ended by itself");
                assert!(Instant::now() < deadline, "{context}: nothing is acknowledged");
                std::thread::sleep(Duration::from_micros(200));
            }
            std::thread::sleep(Duration::from_micros(random.below(40_000)));
        }
        victim.kill().unwrap();
        let status = victim.wait().unwrap();
        assert_eq!(
            status.signal(),
            Some(9),
            "{context}: the victim has ended by itself: {status}"
        );
    }

    fn begin(&self, spec: &Value) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("commit-until-killed").arg(spec.to_string());
        command.arg(self.acknowledged()).stdin(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Compares what a restart would find with what was acknowledged.
    fn judge(&self, tally: &mut Tally, promised: bool, context: &str) {
        let acknowledged = read_acknowledged(&self.acknowledged());
        let recovered = logs::recover(&self.logs()).unwrap_or_else(|error| panic!("{context}: {error}"));
        let Some(recovered) = recovered else {
            assert!(acknowledged.is_empty(), "{context}: nothing was recovered");
            tally.early_kills += 1;
            return;
        };
        let committed = &recovered.committed;
        let last = committed.keys().next_back().copied().unwrap_or(0);
        assert_eq!(last, committed.len() as u64, "{context}: a GTID is left out");
        let xids: HashSet<u64> = committed.values().copied().collect();
        assert_eq!(
            xids.len(),
            committed.len(),
            "{context}: a transaction is there twice"
        );
        self.compare_logs(last - recovered.rebuilt, context);
        let lost: Vec<_> = acknowledged
            .iter()
            .filter(|(gtid, xid)| committed.get(gtid) != Some(xid))
            .collect();
        assert!(
            !promised || lost.is_empty(),
            "{context}: lost {} ({:?} …), {} cut off",
            lost.len(),
            lost.first(),
            recovered.cut_off
        );
        match acknowledged.is_empty() {
            true => tally.early_kills += 1,
            false => tally.kills += 1,
        }
        tally.lost_in += u64::from(!lost.is_empty());
        tally.lost += lost.len() as u64;
        tally.acknowledged += acknowledged.len() as u64;
        tally.rebuilt += recovered.rebuilt;
        tally.rolled_back += recovered.rolled_back;
        tally.cut_off += recovered.cut_off;
        tally.torn += u64::from(recovered.torn_bytes > 0);
    }

    /// What the redo has of the binlog up to a GTID is what the binlog has.
    fn compare_logs(&self, last: u64, context: &str) {
        for record in logs::Redo::read(&self.logs()).unwrap().records {
            let Some((number, position, bytes)) = &record.binlog else {
                continue;
            };
            if record.gtid_number <= last {
                let name = flushlab_binlog::file_name("binlog", *number);
                let mut found = vec![0; bytes.len()];
                let file = File::open(self.logs().join(name)).unwrap();
                file.read_exact_at(&mut found, *position).unwrap();
                let gtid = record.gtid_number;
                assert!(
                    found == *bytes,
                    "{context}: GTID {gtid} has other bytes in the redo"
                );
            }
        }
    }
}

/// Other pipelines, each after some commits.
fn changes(most: u64, random: &mut Random) -> Value {
    let mut after = 0;
    let mut change = || -> Value {
        after += random.below(most);
        let (strategy, sync_binlog) = of(
            &[("serial", 1), ("parallel", 1000), ("two-syncs", 1), ("redo", 1)],
            random,
        );
        json!({"after_commits": after, "binlog_strategy": strategy, "sync_binlog": sync_binlog, "trx_commit": 1})
    };
    Value::from_iter((0..12).map(|_| change()))
}

/// GTIDs and XIDs that committers were told, in whatever order.
fn read_acknowledged(path: &Path) -> Vec<(u64, u64)> {
    let bytes = std::fs::read(path).unwrap();
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let pairs = bytes.chunks_exact(16);
    pairs
        .map(|pair| (number(&pair[..8]), number(&pair[8..])))
        .collect()
}
