//! The run's tool calls, as its terminal event keeps them: bounded. The frames have more of each.

use std::collections::VecDeque;

use serde_json::Value;

use crate::frame::{Frame, Tool};

/// Calls, and bytes of all together, that a run keeps: the last ones.
const CALLS: usize = 256;
const BYTES: usize = 256 * 1024;
/// What it keeps of one: a longer result is cut, longer arguments are left to the frames.
const CALL: usize = 4 * 1024;

#[derive(Clone, Debug, Default)]
pub struct Tools {
    /// With its size.
    calls: VecDeque<(Tool, usize)>,
    bytes: usize,
}

impl Tools {
    /// What a frame tells of a call; other frames tell nothing.
    pub fn see(&mut self, frame: &Frame) {
        let (Frame::ToolCallStarted { tool } | Frame::ToolCallCompleted { tool }) = frame else { return };
        let (tool, size) = short(tool);
        self.bytes += size;
        match self.calls.iter_mut().find(|(call, _)| call.tool_call_id == tool.tool_call_id) {
            Some(call) => {
                self.bytes -= call.1;
                *call = (tool, size);
            }
            None => self.calls.push_back((tool, size)),
        }
        while self.calls.len() > CALLS || self.bytes > BYTES {
            let Some((_, size)) = self.calls.pop_front() else { break };
            self.bytes -= size;
        }
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn take(self) -> Vec<Tool> {
        self.calls.into_iter().map(|(tool, _)| tool).collect()
    }
}

fn short(tool: &Tool) -> (Tool, usize) {
    let mut tool = tool.clone();
    if tool.tool_args.to_string().len() > CALL {
        tool.tool_args = Value::Null;
    }
    if let Some(result) = &mut tool.result
        && result.len() > CALL
    {
        let kept = result.floor_char_boundary(CALL);
        let left_out = result.len() - kept;
        result.truncate(kept);
        result.push_str(&format!("\n[{left_out} more bytes are left out]"));
    }
    let size = tool.tool_call_id.len() + tool.tool_name.len() + tool.tool_args.to_string().len() + tool.result.as_ref().map_or(0, String::len);
    (tool, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, result: Option<&str>) -> Frame {
        let tool = Tool {
            tool_call_id: id.into(),
            tool_name: "Bash".into(),
            tool_args: Value::from("x".repeat(if id == "wide" { CALL } else { 9 })),
            result: result.map(str::to_owned),
            tool_call_error: result.map(|_| false),
        };
        if result.is_some() { Frame::ToolCallCompleted { tool } } else { Frame::ToolCallStarted { tool } }
    }

    #[test]
    fn a_call_is_there_once_with_its_result() {
        let mut tools = Tools::default();
        [call("a", None), Frame::content("between".into()), call("b", None), call("a", Some("done"))].iter().for_each(|frame| tools.see(frame));
        let tools = tools.take();
        assert_eq!(
            tools.iter().map(|tool| (tool.tool_call_id.as_str(), tool.result.as_deref())).collect::<Vec<_>>(),
            [("a", Some("done")), ("b", None)]
        );
    }

    #[test]
    fn the_last_calls_are_kept_and_no_more_of_each_than_fits() {
        let mut tools = Tools::default();
        (0..1000).for_each(|n| tools.see(&call(&n.to_string(), Some(&"ü".repeat(n * 10)))));
        tools.see(&call("wide", None));
        let bytes = tools.bytes;
        let tools = tools.take();
        assert!(bytes <= BYTES && tools.len() < CALLS);
        assert!(tools.last().is_some_and(|tool| tool.tool_call_id == "wide" && tool.tool_args.is_null()));
        assert!(
            tools[tools.len() - 2].result.as_ref().is_some_and(|result| result.ends_with("more bytes are left out]") && result.len() < CALL + 60)
        );
    }
}
