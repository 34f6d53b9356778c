//! One run: `cargo run --release --example run -- '{"directory": "/tmp/x", "trx_commit": 2, …}'`.

use std::time::Duration;

use flushlab_commitpath::{CommitPath, Spec};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec = std::env::args().nth(1).ok_or("give a run's JSON")?;
    let mut run = CommitPath::new(Spec::from_json(spec.as_bytes())?);
    run.start()?;
    loop {
        if let Some(result) = run.wait(Duration::from_millis(200))? {
            println!("{}", serde_json::to_string_pretty(&result)?);
            return Ok(());
        }
    }
}
