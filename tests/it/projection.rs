//! Tests of the projections and of plain lines: entries by hand, whole values, whole renderings.

mod log;

use std::collections::BTreeMap;

use agon::cli::plain::{Options, Renderer, TeamWords, audit_lines, cost_table, ending};
use agon::ports::Head;
use agon::projection::board::{BoardState, Counts, OpenApproval, SparkRow};
use agon::projection::costs::{SparkCosts, Tally};
use agon::projection::transcript::{Item, ItemKind};
use agon::projection::why::{AuditEnd, Cause, Link};
use agon::projection::{Board, Costs, Reasons, Transcript};
use agon::protocol::event::{PauseCause, StopRequested, ToolUse, TurnCause};
use agon::protocol::message::Usage;
use agon::protocol::spec::Action;
use agon::protocol::{ArenaEvent, CallId, Entry, EventRef, Fact, Lane, Signal, SparkId, StopCause};
use proptest::prelude::*;

use log::{T0, walked_turn};

const SPARK: SparkId = SparkId(1);

fn fact(seq: u64) -> EventRef {
    EventRef::fact(seq)
}

fn at(seq: u64, i: u16) -> EventRef {
    EventRef { seq, i }
}

fn find(entries: &[Entry], of: EventRef) -> Option<&ArenaEvent> {
    entries.iter().find(|entry| entry.seq == of.seq)?.events.get(usize::from(of.i))
}

fn board(entries: &[Entry]) -> Board {
    let mut board = Board::default();
    entries.iter().for_each(|entry| board.apply(entry));
    board
}

fn costs(entries: &[Entry]) -> Costs {
    let mut costs = Costs::default();
    entries.iter().for_each(|entry| costs.apply(entry));
    costs
}

fn transcript(entries: &[Entry]) -> Transcript {
    let mut transcript = Transcript::default();
    entries.iter().for_each(|entry| transcript.apply(entry));
    transcript
}

fn reasons(entries: &[Entry]) -> Reasons {
    let mut reasons = Reasons::default();
    entries.iter().for_each(|entry| reasons.apply(entry));
    reasons
}

fn rendered(entries: &[Entry], options: Options) -> String {
    let mut renderer = Renderer::new(options);
    let lookup = |of| find(entries, of);
    entries.iter().map(|entry| renderer.entry(entry, &lookup)).collect()
}

const CALM: Options = Options { color: false, full: false, times: true, summed_up: false, columns: None };

#[test]
fn a_walked_turn_in_calm_lines() {
    insta::assert_snapshot!(rendered(&walked_turn(), CALM));
}

#[test]
fn a_walked_turn_in_full() {
    insta::assert_snapshot!(rendered(&walked_turn(), Options { full: true, times: false, ..CALM }));
}

#[test]
fn the_summary_the_cost_sheet_and_the_audit() {
    let entries = walked_turn();
    let head = Head { count: 13, hash: "h4Sh".to_owned() };
    let (board, costs) = (board(&entries), costs(&entries));
    let lookup = |of| find(&entries, of);
    insta::assert_snapshot!(format!(
        "{}\n{}\n{}",
        ending(&board, &costs, &TeamWords::default(), Some(&head)),
        cost_table(&costs),
        audit_lines(&reasons(&entries), &lookup)
    ));
}

#[test]
fn colour_changes_nothing_but_colour() {
    let entries = walked_turn();
    for full in [false, true] {
        let plain = rendered(&entries, Options { full, ..CALM });
        let colored = rendered(&entries, Options { full, color: true, ..CALM });
        assert_ne!(plain, colored);
        assert_eq!(agon::projection::safe_text::safe(&colored), plain);
        assert!(!plain.contains('\x1B'));
    }
}

#[test]
fn what_a_model_writes_cannot_drive_the_terminal() {
    let entries = log::hostile_turn();
    let shown = rendered(&entries, Options { full: true, ..CALM });
    assert!(!shown.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{shown:?}");
    assert!(shown.contains("<U+202E>"), "{shown}");
}

#[test]
fn mid_turn_the_board_says_who_waits_for_what() {
    let entries = &walked_turn()[..=5];
    let board = board(entries);
    assert_eq!(
        board.sparks,
        [SparkRow {
            spark: SPARK,
            role: "solo".into(),
            model: "mock/any".into(),
            started: T0 + 1_000_000,
            ended: None,
        }]
    );
    assert_eq!(
        board.approvals,
        [OpenApproval {
            call: CallId(6),
            digest: "d4".into(),
            spark: SPARK,
            tool_use: ToolUse { answer: fact(2), part: 2 },
            tool: "bash".into(),
            target: "sh check.sh".into(),
            prepared: fact(4),
            since: T0 + 4_000_000,
            opens: vec![],
        }]
    );
    assert_eq!(board.state_of(&board.sparks[0]), "waiting for approval of bash: sh check.sh");
    assert_eq!((board.state, board.turn, board.seq), (BoardState::Working, 1, Some(5)));
    assert_eq!(board.sandbox.as_ref().unwrap().kind, "local");
}

#[test]
fn at_the_end_the_board_is_at_rest() {
    let board = board(&walked_turn());
    assert_eq!((board.state, board.cause), (BoardState::Sealed(StopCause::Finished), Some(TurnCause::Done)));
    assert_eq!(board.answer, Some(fact(11)));
    assert_eq!(board.approvals, []);
    assert_eq!(board.doing(Some(SPARK)).count() + board.doing(None).count(), 0);
    assert_eq!(board.counts, Counts { entries: 13, unknown: 0 });
    assert_eq!(board.state_of(&board.sparks[0]), "done");
}

#[test]
fn while_it_works_the_board_says_what_is_done() {
    let said = |seq: usize| {
        let board = board(&walked_turn()[..=seq]);
        board.state_of(&board.sparks[0])
    };
    assert_eq!(said(1), "thinking");
    assert_eq!(said(2), "preparing bash: sh check.sh");
    assert_eq!(said(3), "running read_file: src/main.rs");
    assert_eq!(said(7), "running bash: sh check.sh");
    let board = board(&walked_turn()[..=6]);
    let own: Vec<_> = board.doing(None).map(|(call, open)| (call, board.say(call, open))).collect();
    assert_eq!(own, [(CallId(7), "recording the workspace".to_owned())]);
}

#[test]
fn a_pause_is_shown_until_the_session_is_resumed() {
    let mut entries = walked_turn()[..=5].to_vec();
    entries.push(log::entry(6, log::paused(PauseCause::Approval), vec![]));
    assert_eq!(board(&entries).state, BoardState::Paused(PauseCause::Approval));
    assert_eq!(board(&entries).approvals.len(), 1);
    entries.push(log::entry(7, log::resumed(), vec![]));
    assert_eq!(board(&entries).state, BoardState::Working);
}

#[test]
fn live_text_is_pieced_together_and_dropped_with_its_entry() {
    let entries = walked_turn();
    let mut board = board(&entries[..=1]);
    let piece = |call, offset, text: &str| Signal {
        call: CallId(call),
        attempt: 1,
        lane: Lane::Text,
        offset,
        text: text.into(),
    };
    let shown = |board: &Board, call| board.partial(CallId(call), Lane::Text).map(|p| p.text.clone());
    board.hint(&piece(2, 0, "I will "));
    board.hint(&piece(2, 7, "look."));
    assert_eq!(shown(&board, 2).as_deref(), Some("I will look."));
    board.apply(&entries[2]);
    assert_eq!(shown(&board, 2), None);
    board.hint(&piece(2, 0, "late"));
    assert_eq!(shown(&board, 2), None, "a delta of a closed call is ignored");
    board.hint(&piece(5, 0, "early"));
    assert_eq!(shown(&board, 5).as_deref(), Some("early"), "a piece may come before its order is seen");
    board.apply(&entries[3]);
    board.hint(&piece(5, 9, "gap"));
    assert_eq!(shown(&board, 5), None);
}

#[test]
fn while_ballots_are_sealed_no_position_is_shown() {
    let mut entries = log::debate_until_ballots();
    let mut live = board(&entries);
    let said =
        Signal { call: CallId(1), attempt: 1, lane: Lane::Text, offset: 0, text: "I am for it".into() };
    assert!(live.sealed_ballots);
    live.hint(&said);
    assert_eq!(live.partial(CallId(1), Lane::Text), None);
    entries.push(log::ballot_answered(3));
    for full in [true, false] {
        let before = rendered(&entries, Options { full, ..CALM });
        assert!(!before.contains("for it") && before.contains("sealed"), "{before}");
        assert!(!before.contains("+2") && !before.contains(r#""rating""#), "{before}");
        assert!(
            !before.contains("75") && !before.contains("76"),
            "its confidence is sealed as well: {before}"
        );
    }
    entries.push(log::ballots_revealed(4));
    let after = rendered(&entries, CALM);
    assert!(after.contains("P1 +2  75\u{a0}% sure\n        I am for it"), "{after}");
}

#[test]
fn costs_are_booked_per_spark_role_and_model() {
    let costs = costs(&walked_turn());
    let tally = Tally {
        calls: 2,
        attempts: 2,
        usage: Usage { input: 2600, cached: 2000, output: 55, ..Usage::default() },
        micro_usd: 20_000,
        model_ms: 2_000,
        tool_calls: 2,
        tool_ms: 2_000,
        ..Tally::default()
    };
    assert_eq!(costs.total, tally);
    let spark = SparkCosts {
        role: "solo".into(),
        persona: "pragmatist".into(),
        model: "mock/any".into(),
        turn: 1,
        tally,
    };
    assert_eq!(costs.sparks, BTreeMap::from([(SPARK, spark)]));
    assert_eq!(costs.roles, BTreeMap::from([("solo".into(), tally)]));
    assert_eq!(costs.models, BTreeMap::from([("mock/any".into(), tally)]));
    assert_eq!(
        costs.work.us, 8_000_000,
        "neither the hour between the kill and the resume nor the wait for an approval counts"
    );
}

#[test]
fn a_price_that_is_not_known_is_said_to_be_unknown() {
    let entries = log::without_price(walked_turn());
    let (board, costs) = (board(&entries), costs(&entries));
    assert_eq!(costs.total.unpriced, 2);
    assert!(ending(&board, &costs, &TeamWords::default(), None).contains("cost     price unknown\n"));
    assert!(cost_table(&costs).lines().last().unwrap().contains("unknown"));
}

#[test]
fn the_transcript_points_at_what_was_said() {
    let entries = walked_turn();
    let transcript = transcript(&entries);
    let kinds: Vec<_> = transcript.items.iter().map(|item| (item.source, item.kind)).collect();
    assert_eq!(
        kinds,
        [
            (fact(1), ItemKind::Prompt),
            (fact(2), ItemKind::Answer { part: 0 }),
            (fact(2), ItemKind::ToolCall { part: 1, end: Some(fact(5)) }),
            (fact(2), ItemKind::ToolCall { part: 2, end: Some(at(8, 1)) }),
            (at(4, 2), ItemKind::Approval { call: CallId(6), prepared: fact(4), answer: Some(fact(6)) }),
            (fact(8), ItemKind::Resumed { left: Some((at(7, 1), 0)) }),
            (at(10, 1), ItemKind::Event),
            (fact(11), ItemKind::Answer { part: 0 }),
            (at(11, 4), ItemKind::End { work_ms: 8_000 }),
        ]
    );
    let lookup = |of| find(&entries, of);
    let body = |n: usize| transcript.items[n].body(&lookup).map(|body| body.into_owned());
    assert_eq!(body(0).as_deref(), Some("Fix the failing check."));
    assert_eq!(body(3).as_deref(), Some(r#"{"command":"sh check.sh"}"#));
    assert_eq!(body(4).as_deref(), Some("sh check.sh"));
    let moved = "workspace changed: 1 file changed while agon was away: check.sh";
    assert_eq!(body(6).as_deref(), Some(moved));
    assert_eq!(body(7).as_deref(), Some("The check fails in line 3:\n\n- `test` misses a quote"));
    assert_eq!(transcript.items[6].spark, Some(SPARK));
    assert!(std::mem::size_of::<Item>() <= 88, "items hold references, not bodies");
}

#[test]
fn an_audit_names_who_allowed_a_call() {
    let reasons = reasons(&walked_turn());
    let audit = reasons.audit(ToolUse { answer: fact(2), part: 2 }).unwrap();
    assert_eq!(audit.prepared, Some(fact(4)));
    assert_eq!(audit.judged, [(at(4, 1), Action::Ask, "commands".to_owned())]);
    assert_eq!(audit.requested, Some(at(4, 2)));
    assert_eq!(audit.answered, Some((fact(6), "anna".to_owned())));
    assert_eq!(audit.invoked, [at(7, 1)]);
    assert_eq!(audit.end, Some((at(8, 1), AuditEnd::Lost)));
}

#[test]
fn a_chain_of_causes_leads_back_to_the_prompt() {
    let reasons = reasons(&walked_turn());
    let chain = reasons.chain(at(7, 1), 100);
    assert_eq!(chain.first().unwrap().from, fact(1));
    let of_invoked: Vec<_> =
        chain.iter().filter(|cause| cause.of == at(7, 1)).map(|c| (c.link, c.from)).collect();
    assert_eq!(
        of_invoked,
        [
            (Link::AskedBy, fact(2)),
            (Link::Prepared, fact(4)),
            (Link::Judged, at(4, 1)),
            (Link::Requested, at(4, 2)),
            (Link::Answered, fact(6)),
            (Link::DrawnFrom, fact(7)),
        ]
    );
    assert!(chain.contains(&Cause { of: fact(2), from: at(1, 5), link: Link::OrderedBy }));
    assert_eq!(reasons.chain(at(7, 1), 2).len(), 2);
    assert_eq!(reasons.chain(fact(99), 100), []);
}

#[test]
fn void_facts_change_nothing() {
    let entries = walked_turn();
    let mut void = entries[..=5].to_vec();
    void.push(log::void_answer(6));
    let (with, without) = (board(&void), board(&entries[..=5]));
    assert_eq!(with.approvals, without.approvals);
    assert_eq!(with.counts.entries, 7);
    assert_eq!(transcript(&void).items, transcript(&entries[..=5]).items);
    assert_eq!(reasons(&void).audit(ToolUse { answer: fact(2), part: 2 }).unwrap().answered, None);
    assert!(rendered(&void, CALM).ends_with("refused   the digest is not the one that is asked about\n"));
}

#[test]
fn an_unknown_kind_is_shown_as_such() {
    let event = ArenaEvent::Unknown { kind: "tea_served".into(), raw: serde_json::json!({"cups": 2}) };
    let stop = Fact::new(ArenaEvent::StopRequested(StopRequested { cause: StopCause::Finished })).unwrap();
    let entries = [Entry::new(0, T0, stop, vec![event])];
    let shown = rendered(&entries, Options { times: false, ..CALM });
    assert_eq!(
        shown,
        "e0.1   agon     unknown   `tea_served`, an event of a newer agon\n        {\"cups\":2}\n"
    );
    assert_eq!(board(&entries).counts.unknown, 1);
    assert_eq!(transcript(&entries).items[0].kind, ItemKind::Event);
}

/// Any events of the sample logs in any order and grouping, as no session would write them.
fn disorder() -> impl Strategy<Value = Vec<Entry>> {
    let pool: Vec<ArenaEvent> = log::every_event();
    let event = prop::sample::select(pool);
    let entry = (0u64..20, 0u64..1 << 40, prop::collection::vec(event, 0..6));
    prop::collection::vec(entry, 0..30).prop_map(|entries| {
        entries.into_iter().map(|(seq, at, events)| Entry::made(seq, at, events)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_order_of_events_brings_a_view_down(entries in disorder()) {
        let (board, costs) = (board(&entries), costs(&entries));
        for row in &board.sparks {
            board.state_of(row);
        }
        transcript(&entries);
        let reasons = reasons(&entries);
        for entry in &entries {
            reasons.chain(fact(entry.seq), 50);
        }
        let shown = rendered(&entries, Options { full: true, ..CALM });
        prop_assert!(!shown.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        ending(&board, &costs, &TeamWords::default(), None);
        cost_table(&costs);
    }

    /// A fold has no memory beside its value: folded in two goes, by way of a clone, or in one, it is the same.
    #[test]
    fn folding_in_two_goes_is_folding_in_one(entries in disorder(), cut in 0usize..30) {
        let (a, b) = entries.split_at(cut.min(entries.len()));
        macro_rules! check {
            ($fold:ident) => {
                let mut halves = $fold(a).clone();
                b.iter().for_each(|entry| halves.apply(entry));
                prop_assert_eq!(halves, $fold(&entries));
            };
        }
        check!(board);
        check!(costs);
        check!(transcript);
        check!(reasons);
    }
}
