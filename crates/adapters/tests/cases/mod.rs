//! The cases, by subject. One that is missing from the list is dead code, which the compiler tells.

pub(crate) mod accept;
pub(crate) mod append;
pub(crate) mod cancel;
pub(crate) mod claim;
pub(crate) mod depth;
pub(crate) mod erase;
pub(crate) mod finish;
pub(crate) mod hosts;
pub(crate) mod idempotency;
pub(crate) mod lease;
pub(crate) mod pages;
pub(crate) mod queue;
pub(crate) mod read;
pub(crate) mod workers;

macro_rules! each {
    ($suite:ident $world:ident) => {
        $suite! { $world
            accept:
                what_is_accepted_can_be_read,
                runs_of_a_session_are_in_the_order_of_acceptance,
                a_session_of_another_owner_is_not_found_and_nothing_is_left,
                attachments_come_back_byte_for_byte,
                a_submission_without_a_session_makes_one;
            append:
                a_taken_seq_is_refused_and_the_log_unchanged,
                nothing_follows_a_terminal_event,
                an_unknown_run_takes_no_event,
                what_a_program_printed_comes_back_with_nul_shown,
                events_come_in_pages_by_seq;
            cancel:
                a_waiting_run_is_cancelled_at_once_and_never_claimed,
                a_waiting_run_behind_another_is_cancelled_and_the_other_goes_on,
                a_claimed_run_without_a_sandbox_is_cancelled_and_its_lease_freed,
                a_run_with_a_sandbox_takes_the_wish_only,
                between_attempts_a_wish_ends_the_run,
                an_ended_run_is_left_alone,
                an_unknown_run_is_not_cancelled,
                cancelling_twice_is_cancelling_once,
                a_cancel_beside_a_fast_appender_ends_in_the_log;
            claim:
                an_empty_log_has_nothing_to_claim,
                a_claim_names_the_first_run_and_is_in_its_log,
                only_served_kinds_of_sandboxes_are_claimed,
                a_claim_of_one_session_leaves_the_others,
                what_is_ready_is_what_a_claim_would_take,
                ready_sessions_come_in_pages_without_loss_or_repeat,
                the_oldest_run_comes_first,
                a_living_sandbox_comes_before_an_older_run,
                a_run_before_its_retry_time_is_not_claimed;
            depth:
                a_full_queue_refuses_and_nothing_is_left,
                a_known_key_is_answered_when_the_queue_is_full,
                what_is_claimed_cancelled_or_erased_waits_no_more,
                the_overshoot_is_what_is_accepted_at_one_moment,
                workers_of_two_hosts_need_checkpoints_that_both_read;
            erase:
                an_unknown_session_is_told,
                a_session_with_an_unended_run_is_busy,
                an_erased_session_is_gone_with_all_of_it,
                erasures_are_listed_per_host_until_forgotten,
                an_erased_name_starts_afresh;
            finish:
                a_finish_frees_the_lease_and_keeps_the_checkpoint,
                a_finish_without_a_checkpoint_keeps_the_one_before,
                a_finish_after_a_cancel_slipped_in_changes_nothing,
                a_failed_turn_lets_the_next_one_start;
            hosts:
                a_sandbox_is_claimed_on_its_own_host_only,
                a_dead_host_gives_up_its_sandboxes,
                a_failed_attempt_is_free_of_its_host,
                a_run_says_which_silent_host_it_waits_for,
                a_run_that_no_host_can_serve_says_so,
                a_run_that_is_held_or_over_waits_for_nothing_however_old;
            idempotency:
                the_same_submission_leads_to_the_same_run,
                another_scope_is_refused,
                other_input_is_refused,
                twenty_at_once_start_one_run,
                a_refused_submission_leaves_no_key;
            lease:
                a_held_session_is_not_claimed,
                a_lease_that_ran_out_is_claimed_by_another,
                a_renewed_lease_is_not_claimed,
                a_claim_fences_the_one_before_it,
                a_heartbeat_answers_only_for_what_is_held,
                a_heartbeat_tells_of_a_cancel,
                a_hand_over_frees_at_once,
                claims_that_did_nothing_are_counted;
            pages:
                runs_are_paged_without_loss_or_repeat_while_new_ones_come,
                sessions_are_paged_without_loss_or_repeat_while_new_ones_come,
                a_page_of_large_runs_ends_early_and_the_next_one_goes_on,
                runs_are_filtered_by_every_field,
                sessions_are_filtered_by_agent_and_user;
            queue:
                runs_are_counted_by_status_and_the_oldest_is_told,
                jobs_are_paged_and_filtered_without_loss_or_repeat,
                a_job_tells_all_but_what_was_said,
                a_requeued_run_is_a_new_one_at_the_sessions_tail,
                an_unknown_or_erased_run_is_not_requeued,
                a_run_is_not_requeued_while_workers_of_two_hosts_need_checkpoints_that_both_read;
            read:
                frames_come_as_whole_events_from_an_index,
                a_tail_gives_each_runs_events_from_its_index,
                a_run_behind_another_says_so,
                another_users_things_do_not_exist,
                ended_runs_are_told_from_others,
                a_healthy_log_says_its_schema,
                runs_that_have_not_ended_are_counted;
            workers:
                one_turn_at_a_time_over_eight_workers,
                many_sessions_end_over_workers_that_die,
                whatever_happens_at_once_the_logs_stay_legal;
        }
    };
}
pub(crate) use each;
