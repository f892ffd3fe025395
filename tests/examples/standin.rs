//! The stand-in by hand: `cargo run -p e2e --example standin`, then `SANDLOG_UPSTREAM_ANTHROPIC=URL ANTHROPIC_API_KEY=standin-key ./dev run coder "model: say hi"`.

use e2e::standin::Standin;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let standin = Standin::start("standin-key").await;
    println!("{}", standin.url);
    std::future::pending::<()>().await;
}
