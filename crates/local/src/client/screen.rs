//! What a person sees of a run: live text, one line a step, and on a terminal a status line with the elapsed time.

use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use serde_json::Value;

/// How a run ended, or that it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Completed,
    Failed,
    Cancelled,
    /// It goes on: nobody looks any longer.
    Left,
}

/// Where frames are shown.
pub(crate) struct Screen {
    out: Box<dyn Write + Send>,
    terminal: bool,
    since: Instant,
    frames: u64,
    state: &'static str,
    /// What this attempt has printed of the run's content.
    content: String,
    /// The cursor stands at the beginning of a line; only there is the status line drawn.
    line_start: bool,
    drawn: bool,
}

impl Screen {
    pub(crate) fn on_stdout() -> Screen {
        let out = io::stdout();
        let terminal = out.is_terminal();
        Screen::new(Box::new(out), terminal)
    }

    pub(super) fn new(out: Box<dyn Write + Send>, terminal: bool) -> Screen {
        Screen { out, terminal, since: Instant::now(), frames: 0, state: "PENDING", content: String::new(), line_start: true, drawn: false }
    }

    /// Shows one frame; says how the run ended if it is the last.
    pub(crate) fn frame(&mut self, frame: &Value) -> io::Result<Option<Ending>> {
        self.frames += 1;
        let text = |key: &str| frame[key].as_str().unwrap_or_default().to_owned();
        match frame["event"].as_str().unwrap_or_default() {
            "RunStarted" => self.started(frame["attempt"].as_u64().unwrap_or(1))?,
            "RunContent" => {
                let (reasoning, content) = (text("reasoning_content"), text("content"));
                if self.terminal && !reasoning.is_empty() {
                    self.print(&format!("\x1b[2m{}\x1b[0m", tame(&reasoning)), reasoning.ends_with('\n'))?;
                }
                self.content.push_str(&content);
                self.text(&content)?;
            }
            "ToolCallStarted" => self.line(&format!("-- {} {}", name(frame), brief(&frame["tool"]["tool_args"])))?,
            "ToolCallCompleted" if frame["tool"]["tool_call_error"].as_bool() == Some(true) => self.line(&format!("-- {} failed", name(frame)))?,
            "ToolCallCompleted" => self.line(&format!("-- {} done", name(frame)))?,
            "RunCompleted" => {
                let result = text("content");
                if result.trim() != self.content.trim() {
                    self.line("-- result")?;
                    self.text(&result)?;
                }
                return self.ended("COMPLETED", Ending::Completed);
            }
            "RunError" => return self.ended("ERROR", Ending::Failed),
            "RunCancelled" => return self.ended("CANCELLED", Ending::Cancelled),
            _ => {}
        }
        self.draw()?;
        self.out.flush()?;
        Ok(None)
    }

    /// A line about the run.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        if !self.line_start {
            self.print("\n", true)?;
        }
        let line = self.safe(line);
        if self.terminal {
            self.print(&format!("\x1b[2m{line}\x1b[0m\n"), true)?
        } else {
            self.print(&format!("{line}\n"), true)?
        }
        self.draw()?;
        self.out.flush()
    }

    /// Draws the status line anew, for the time that has passed.
    pub(crate) fn tick(&mut self) -> io::Result<()> {
        self.draw()?;
        self.out.flush()
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    fn started(&mut self, attempt: u64) -> io::Result<()> {
        self.state = "RUNNING";
        self.content.clear();
        if attempt > 1 { self.line(&format!("-- started again (attempt {attempt}); what came before is void")) } else { self.line("-- started") }
    }

    fn ended(&mut self, status: &str, how: Ending) -> io::Result<Option<Ending>> {
        self.state = "";
        let seconds = self.since.elapsed().as_secs_f64();
        self.line(&format!("-- {status} after {seconds:.1} s, {} frames", self.frames))?;
        Ok(Some(how))
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        let text = self.safe(text);
        self.print(&text, text.ends_with('\n'))
    }

    fn print(&mut self, text: &str, line_end: bool) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.erase()?;
        self.line_start = line_end;
        self.out.write_all(text.as_bytes())
    }

    fn erase(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.drawn) { self.out.write_all(b"\r\x1b[2K") } else { Ok(()) }
    }

    fn draw(&mut self) -> io::Result<()> {
        if !self.terminal || !self.line_start || self.state.is_empty() {
            return Ok(());
        }
        self.erase()?;
        self.drawn = true;
        write!(self.out, "\x1b[7m {} {:.1} s \x1b[0m {} frames", self.state, self.since.elapsed().as_secs_f64(), self.frames)
    }

    fn safe(&self, text: &str) -> String {
        if self.terminal { tame(text) } else { text.to_owned() }
    }
}

/// What an agent prints must not move the cursor, retitle the window or answer for the user.
fn tame(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

fn name(frame: &Value) -> &str {
    frame["tool"]["tool_name"].as_str().unwrap_or("tool")
}

/// Arguments on one line of reasonable length.
fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(160) {
        Some((cut, _)) => format!("{}...", &text[..cut]),
        None => text,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::*;

    /// Takes what a screen prints.
    #[derive(Clone, Default)]
    pub(in super::super) struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Paper {
        pub(in super::super) fn text(&self) -> String {
            String::from_utf8_lossy(&self.0.lock().expect("paper")).into_owned()
        }
    }

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("paper").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn shown(terminal: bool, frames: &[Value]) -> (String, Option<Ending>) {
        let paper = Paper::default();
        let mut screen = Screen::new(Box::new(paper.clone()), terminal);
        let mut ending = None;
        for frame in frames {
            ending = screen.frame(frame).expect("a frame");
        }
        (paper.text(), ending)
    }

    #[test]
    fn without_a_terminal_there_are_plain_lines_only() {
        let (text, ending) = shown(
            false,
            &[
                json!({"event": "RunStarted", "attempt": 1}),
                json!({"event": "RunContent", "content": "half a "}),
                json!({"event": "RunContent", "content": "line"}),
                json!({"event": "ToolCallStarted", "tool": {"tool_name": "Bash", "tool_args": {"command": "ls"}}}),
                json!({"event": "RunCompleted", "content": "half a line"}),
            ],
        );
        assert!(text.starts_with("-- started\nhalf a line\n-- Bash {\"command\":\"ls\"}\n-- COMPLETED after "), "{text}");
        assert!(!text.contains('\x1b') && !text.contains('\r'), "{text}");
        assert_eq!(ending, Some(Ending::Completed));
    }

    #[test]
    fn a_terminal_has_a_status_line_that_is_gone_at_the_end() {
        let (text, _) = shown(
            true,
            &[json!({"event": "RunStarted"}), json!({"event": "RunContent", "content": "x\n"}), json!({"event": "RunCompleted", "content": "x"})],
        );
        assert!(text.contains(" RUNNING 0.0 s "), "{text:?}");
        let after = text.rsplit("\x1b[2K").next().unwrap_or_default();
        assert!(after.contains("COMPLETED") && !after.contains("RUNNING"), "{text:?}");
    }

    #[test]
    fn an_agent_cannot_drive_the_terminal() {
        let (text, _) = shown(true, &[json!({"event": "RunContent", "content": "\x1b]0;owned\x07\r\n"})]);
        assert!(!text.contains("\x1b]0;") && !text.contains('\x07'), "{text:?}");
    }

    #[test]
    fn a_result_that_was_not_streamed_is_printed() {
        let (text, _) = shown(false, &[json!({"event": "RunContent", "content": "thinking\n"}), json!({"event": "RunCompleted", "content": "42"})]);
        assert!(text.contains("-- result\n42\n-- COMPLETED"), "{text}");
    }
}
