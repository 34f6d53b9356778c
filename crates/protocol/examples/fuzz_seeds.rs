//! Writes what real servers sent as files for the fuzzer to begin with: `cargo run --example fuzz_seeds -- FOLDER`.

#[path = "../tests/captures/mod.rs"]
mod captures;
#[path = "../fuzz/seeds.rs"]
mod seeds;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("give a folder")?;
    std::fs::create_dir_all(&folder)?;
    for (number, (_, seed)) in seeds::seeds().iter().enumerate() {
        std::fs::write(format!("{folder}/seed-{number:03}"), seed)?;
    }
    Ok(())
}
