//! The crash contract: threads are killed by SIGKILL at random moments, over and over on the same files.
//!
//! After each kill the logs are recovered, and then
//!
//! * every transaction that was acknowledged is in the binlog, under the GTID that its thread was told;
//! * redo and binlog have the same transactions, and all that earlier lives left is still there;
//! * what the redo has of the binlog is what the binlog has;
//! * no transaction was committed twice;
//! * the strict checker finds every file whole.
//!
//! Some victims change their way of flushing while they live. A victim in which nothing moves for ten seconds ends
//! itself: a hang is a failure here, not a victim.
//!
//! Then lives of random specs: transactions of 100 bytes to 4 MiB, small buffers, rotations, changes, 1 to 256
//! threads; half of them are killed, the others end in good order, and all are judged like that.
//!
//! The control runs with redo 0, which promises nothing: it must lose, or the harness would find nothing.
//!
//! `FLUSHLAB_COMMIT_KILLS` says how many kills each way of flushing gets while it commits (5 unless told; `make
//! soak` takes 1,000); those that come while a victim still starts or recovers are counted apart.
//! `FLUSHLAB_COMMIT_STRESS_SECONDS` says how long random specs are tried (5 unless told; an hour in `make soak`).
//! `FLUSHLAB_COMMIT_SEED` is where the random numbers begin. This program is its own victim: called with a spec it
//! commits until it is killed.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flushlab_binlog::check::{Checker, Options, Verdict};
use flushlab_commitpath::recover::{recover, Recovered};
use flushlab_commitpath::redo::{self, Kind};
use flushlab_commitpath::{CommitPath, Spec};
use flushlab_rows::{Bits, Random};
use serde_json::{json, Value};

/// Longest wait for a victim's first acknowledgement.
const START_LIMIT: Duration = Duration::from_secs(30);
/// A folder gets new files when it has more than this: every file is checked after every kill.
const FOLDER_LIMIT: u64 = 16 << 20;

/// The control needs no more kills than show that it loses.
const CONTROL_KILLS: u64 = 100;

fn main() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("commit-until-killed") {
        commit_until_killed(&arguments.next().expect("a spec"));
    }
    let setting = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let kills = setting("FLUSHLAB_COMMIT_KILLS", 5);
    let seed = setting("FLUSHLAB_COMMIT_SEED", 1);
    for way in ["serial", "parallel-leader", "parallel", "redo"] {
        let tally = kill_often(way, &promising(way), kills, seed);
        println!("{way}: {tally}");
        assert_eq!(tally.lost_in, 0, "{way} lost what it had acknowledged");
    }
    let control = kill_often("control", &[(0, 1000)], kills.min(CONTROL_KILLS), seed);
    println!("control (serial, redo 0): {control}");
    assert!(
        control.lost_in > 0,
        "the control loses nothing: the harness cannot find a loss"
    );
    let tally = stress(
        Duration::from_secs(setting("FLUSHLAB_COMMIT_STRESS_SECONDS", 5)),
        seed,
    );
    println!("random specs: {tally}");
}

/// `trx_commit` and `sync_binlog` of the settings that promise to survive the process.
fn promising(way: &str) -> Vec<(u8, u32)> {
    match way {
        "serial" => vec![(1, 1), (2, 1000), (3, 1), (1, 0), (2, 1)],
        "redo" => vec![(1, 1), (3, 1)],
        _ => vec![(1, 0), (2, 1000), (3, 1000), (2, 0)],
    }
}

/// The victim: commits until it is killed, or its spec's time is over.
fn commit_until_killed(spec: &str) -> ! {
    // Whoever started us is gone when our input ends: nobody would kill us.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
    let mut path = CommitPath::new(Spec::from_json(spec.as_bytes()).unwrap());
    path.start().unwrap();
    let ended = path.wait(Duration::from_secs(7200));
    assert!(matches!(ended, Ok(Some(_))), "the victim has failed: {ended:?}");
    std::process::exit(0);
}

/// What the kills of one way came to.
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

/// Kills the threads of one way of flushing `kills` times.
fn kill_often(way: &str, settings: &[(u8, u32)], kills: u64, seed: u64) -> Tally {
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    let mut folder: Option<Folder> = None;
    for number in 0.. {
        if tally.kills == kills {
            break;
        }
        let used = folder.take_if(|folder| folder.bytes() > FOLDER_LIMIT || random.below(16) == 0);
        drop(used);
        let folder = folder.get_or_insert_with(|| Folder::new(&mut random));
        let (trx_commit, sync_binlog) = settings[(number % settings.len() as u64) as usize];
        let strategy = if way == "control" { "serial" } else { way };
        let spec = folder.spec(strategy, trx_commit, sync_binlog, &mut random);
        let context = format!("{way}, kill {number} of seed {seed}: {spec}");
        folder.live_and_die(&spec, &mut random, &context);
        folder.judge(&mut tally, trx_commit > 0, &context);
    }
    tally
}

/// Lets threads of random specs live and end for so long.
fn stress(limit: Duration, seed: u64) -> Tally {
    let start = Instant::now();
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    let mut folder: Option<Folder> = None;
    for number in 0.. {
        if start.elapsed() >= limit {
            break;
        }
        let used = folder.take_if(|folder| folder.bytes() > FOLDER_LIMIT || random.below(4) == 0);
        drop(used);
        let folder = folder.get_or_insert_with(|| Folder::new(&mut random));
        let mut spec = folder.random_spec(&mut random);
        let is_killed = random.below(2) == 0;
        if is_killed {
            // However late the kill comes on a busy machine, the run is not over before.
            spec["seconds"] = json!(3600.0);
        }
        let context = format!("life {number} of seed {seed}: {spec}");
        match is_killed {
            true => folder.live_and_die(&spec, &mut random, &context),
            _ => folder.live_and_end(&spec, &context),
        }
        folder.judge(&mut tally, true, &context);
    }
    tally
}

/// One of a few.
fn of<T: Copy>(few: &[T], random: &mut Random) -> T {
    few[random.below(few.len() as u64) as usize]
}

/// A folder whose logs live on from kill to kill.
struct Folder {
    path: tempfile::TempDir,
    format: &'static str,
    /// XIDs by GTID, as far as they are known to be in both logs.
    committed: BTreeMap<u64, u64>,
}

impl Folder {
    fn new(random: &mut Random) -> Self {
        let formats = ["9.7.4", "8.0.44", "10.11.19-MariaDB-log", "11.8.6-MariaDB"];
        Self {
            path: tempfile::tempdir().unwrap(),
            format: formats[random.below(4) as usize],
            committed: BTreeMap::new(),
        }
    }

    fn logs(&self) -> PathBuf {
        self.path.path().join("logs")
    }

    fn acknowledged(&self) -> PathBuf {
        self.path.path().join("acknowledged")
    }

    fn bytes(&self) -> u64 {
        let files = std::fs::read_dir(self.logs()).into_iter().flatten();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
    }

    /// What the next life does: small buffers and files, so that all of them come round within milliseconds.
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
        json!({
            "directory": self.logs(), "changes": changes, "keep": true, "resume": true, "format": self.format,
            "trx_commit": trx_commit, "sync_binlog": sync_binlog, "binlog_strategy": strategy,
            "threads": of(&[1, 2, 8, 16, 64], random), "shape": shape, "seconds": 3600.0,
            "seed": random.below(1 << 32), "rotate_bytes": of(&[0, 100_000, 1 << 20], random),
            "log_buffer_bytes": 1 << 20, "ring_bytes": of(&[1 << 20, 4 << 20], random),
            "redo_capacity_bytes": 5 << 20, "stall_seconds": 10,
            "acknowledged": self.acknowledged(),
        })
    }

    /// Anything that a run may be asked for, with buffers that are soon full.
    fn random_spec(&self, random: &mut Random) -> Value {
        /// Of transactions under way, all together.
        const MOST_BYTES: u64 = 128 << 20;
        let strategy = of(&["serial", "parallel-leader", "parallel", "redo"], random);
        let (trx_commit, sync_binlog) = of(&promising(strategy), random);
        let bytes = |least: u64, doublings: u64, random: &mut Random| {
            let about = least << random.below(doublings + 1);
            about + random.below(about / 2)
        };
        let binlog_bytes = bytes(300, 13, random);
        let threads = of(&[1, 2, 3, 8, 16, 64, 128, 256], random);
        let shape = json!({
            "kind": "sizes", "redo_bytes": bytes(100, 9, random), "binlog_bytes": binlog_bytes,
            "large_every": of(&[0, 1, 3, 40], random), "large_bytes": bytes(100_000, 5, random),
        });
        json!({
            "directory": self.logs(), "changes": changes(of(&[3, 30, 300], random), random), "keep": true,
            "resume": true, "format": self.format, "trx_commit": trx_commit,
            "sync_binlog": sync_binlog, "binlog_strategy": strategy,
            "threads": threads.min(MOST_BYTES / binlog_bytes).max(1), "shape": shape, "seconds": 0.3,
            "seed": random.below(1 << 32), "rotate_bytes": of(&[0, 4096, 30_000, 1 << 20], random),
            "log_buffer_bytes": 1 << 20, "ring_bytes": of(&[1 << 20, 2 << 20, 4 << 20], random),
            "redo_capacity_bytes": of(&[4 << 20, 5 << 20, 16 << 20], random), "stall_seconds": 10,
            "acknowledged": self.acknowledged(),
        })
    }

    /// Commits in a process of its own until its time is over.
    fn live_and_end(&self, spec: &Value, context: &str) {
        std::fs::create_dir_all(self.logs()).unwrap();
        File::create(self.acknowledged()).unwrap();
        Victim::start(spec).end(context);
    }

    /// Commits in a process of its own, and kills it: mostly after its first acknowledgement, sometimes while
    /// it starts.
    fn live_and_die(&self, spec: &Value, random: &mut Random, context: &str) {
        std::fs::create_dir_all(self.logs()).unwrap();
        File::create(self.acknowledged()).unwrap();
        let mut victim = Victim::start(spec);
        let is_early = random.below(8) == 0;
        if is_early {
            std::thread::sleep(Duration::from_micros(random.below(20_000)));
        } else {
            victim.wait_until(|| self.acknowledged().metadata().unwrap().len() > 0, context);
            std::thread::sleep(Duration::from_micros(random.below(40_000)));
        }
        victim.kill(context);
    }

    /// Recovers the logs and compares them with one another and with what was acknowledged.
    fn judge(&mut self, tally: &mut Tally, promised: bool, context: &str) {
        let acknowledged = read_acknowledged(&self.acknowledged());
        let redo = RedoBefore::read(&self.logs().join("redo"));
        let recovered = recover(&self.logs()).unwrap_or_else(|error| panic!("{context}: {error}"));
        let Some(recovered) = recovered else {
            assert!(
                acknowledged.is_empty() && self.committed.is_empty(),
                "{context}: nothing was recovered"
            );
            tally.early_kills += 1;
            return;
        };
        let in_binlog = read_binlog(&self.logs(), context);
        // No number is left out, and the redo says where it ends.
        assert_eq!(
            in_binlog.keys().copied().max().unwrap_or(0),
            in_binlog.len() as u64,
            "{context}"
        );
        assert_eq!(recovered.last_gtid, in_binlog.len() as u64, "{context}");
        let mut after = redo::read(&self.logs().join("redo")).unwrap();
        assert_eq!(
            (after.checkpoint().applied, after.next().is_none()),
            (recovered.last_gtid, true),
            "{context}"
        );
        // What is in the binlog was in the redo, and nothing came from elsewhere.
        let redo = redo.unwrap_or_default();
        for (gtid, number, position, bytes) in &redo.persisted {
            if in_binlog.contains_key(gtid) {
                let file =
                    File::open(self.logs().join(flushlab_binlog::file_name("binlog", *number))).unwrap();
                let mut found = vec![0; bytes.len()];
                file.read_exact_at(&mut found, *position).unwrap();
                assert_eq!(&found, bytes, "{context}: GTID {gtid}");
            }
        }
        for (gtid, xid) in in_binlog.range(redo.applied + 1..) {
            assert!(
                redo.xids.contains(xid),
                "{context}: GTID {gtid}, XID {xid} is in the binlog only"
            );
        }
        assert!(
            self.committed
                .iter()
                .all(|(gtid, xid)| in_binlog.get(gtid) == Some(xid)),
            "{context}"
        );
        let fresh = in_binlog.range(self.committed.len() as u64 + 1..);
        let mut xids = HashSet::new();
        for (gtid, xid) in fresh {
            assert!(
                xids.insert(xid),
                "{context}: GTID {gtid} commits XID {xid} once more"
            );
        }
        let lost = acknowledged
            .iter()
            .filter(|(gtid, xid)| in_binlog.get(gtid) != Some(xid));
        let lost: Vec<_> = lost.collect();
        assert!(
            !promised || lost.is_empty(),
            "{context}: lost {} ({:?} …); {recovered:?}",
            lost.len(),
            lost.first()
        );
        // Again: what is recovered stays as it is.
        let again = recover(&self.logs()).unwrap().unwrap();
        let nothing = Recovered {
            flavor: recovered.flavor,
            last_gtid: recovered.last_gtid,
            file_number: recovered.file_number,
            lsn: again.lsn,
            ..Recovered::default()
        };
        assert_eq!(again, nothing, "{context}");

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
        self.committed = in_binlog;
    }
}

/// Other ways of flushing, each after some commits.
fn changes(most: u64, random: &mut Random) -> Value {
    let mut after = 0;
    let mut change = || -> Value {
        after += random.below(most);
        let (strategy, sync_binlog) = [
            ("serial", 1),
            ("parallel-leader", 1000),
            ("parallel", 0),
            ("redo", 1),
        ][random.below(4) as usize];
        json!({"after_commits": after, "binlog_strategy": strategy, "sync_binlog": sync_binlog, "trx_commit": 1})
    };
    Value::from_iter((0..12).map(|_| change()))
}

/// Transactions of the redo before it was recovered.
#[derive(Debug, Default)]
struct RedoBefore {
    applied: u64,
    xids: HashSet<u64>,
    /// Binlog records: GTID, number of the file, position, bytes.
    persisted: Vec<(u64, u32, u64, Vec<u8>)>,
}

impl RedoBefore {
    /// `None` if the file was not made yet.
    fn read(path: &Path) -> Option<Self> {
        let mut records = redo::read(path).ok()?;
        let (mut xids, mut persisted) = (HashSet::new(), Vec::new());
        for record in &mut records {
            let record = record.unwrap();
            if record.kind != Kind::Commit {
                xids.insert(record.xid);
            }
            if let Kind::Binlog { file, position } = record.kind {
                persisted.push((record.gtid_number, file, position, record.binlog));
            }
        }
        let applied = records.checkpoint().applied;
        Some(Self {
            applied,
            xids,
            persisted,
        })
    }
}

/// GTIDs and XIDs that threads were told, in whatever order.
fn read_acknowledged(path: &Path) -> Vec<(u64, u64)> {
    let bytes = std::fs::read(path).unwrap();
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let pairs = bytes.chunks_exact(16);
    pairs
        .map(|pair| (number(&pair[..8]), number(&pair[8..])))
        .collect()
}

/// XIDs by GTID of a log whose every file must be whole.
fn read_binlog(folder: &Path, context: &str) -> BTreeMap<u64, u64> {
    let index = std::fs::read_to_string(folder.join("binlog.index")).unwrap();
    let mut checker = Checker::new(Options::default());
    let mut transactions = BTreeMap::new();
    for name in index.lines() {
        let file = BufReader::with_capacity(1 << 20, File::open(folder.join(name)).unwrap());
        let report = checker.check_each(name, file, |found| {
            transactions.insert(found.gtid_number, found.xid);
        });
        let report = report.unwrap();
        assert_eq!(
            (report.verdict, report.in_use),
            (Verdict::Whole, false),
            "{context}: {report:?}"
        );
    }
    let files = std::fs::read_dir(folder).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let numbered = names.filter(|name| name.starts_with("binlog.0")).count();
    assert_eq!(
        numbered,
        index.lines().count(),
        "{context}: files that the index does not name"
    );
    transactions
}

/// A process that commits until it is killed.
struct Victim(Child);

impl Victim {
    fn start(spec: &Value) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.arg("commit-until-killed").arg(spec.to_string());
        Self(command.stdin(Stdio::piped()).spawn().unwrap())
    }

    fn wait_until(&mut self, is_so: impl Fn() -> bool, context: &str) {
        let deadline = Instant::now() + START_LIMIT;
        while !is_so() {
            assert!(
                self.0.try_wait().unwrap().is_none(),
                "{context}: the victim has ended by itself"
            );
            assert!(Instant::now() < deadline, "{context}: nothing is acknowledged");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn end(mut self, context: &str) {
        let deadline = Instant::now() + START_LIMIT;
        let status = loop {
            match self.0.try_wait().unwrap() {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(2)),
            }
            if Instant::now() > deadline {
                self.0.kill().unwrap();
                panic!("{context}: the run does not end");
            }
        };
        assert!(status.success(), "{context}: {status}");
    }

    fn kill(mut self, context: &str) {
        use std::os::unix::process::ExitStatusExt;
        self.0.kill().unwrap();
        let status = self.0.wait().unwrap();
        assert_eq!(
            status.signal(),
            Some(9),
            "{context}: the victim has ended by itself: {status}"
        );
    }
}
