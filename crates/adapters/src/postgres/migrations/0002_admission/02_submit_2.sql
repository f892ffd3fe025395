-- Accepts a run: key, session, depth, binding, run, run.submitted, attachments; or refuses by a SQLSTATE of its own, and nothing is left:
-- SL404 the session is another's, SL408 the key is of another scope, SL409 the key has other input, SL429 as many runs wait as may (p_limit; null: any
-- number), SL500 workers of several hosts live and p_one_host says that only one can read the checkpoints.
create or replace function {schema}.submit_2(
    p_key text, p_fingerprint bytea, p_session_id text, p_agent_id text, p_user_id text, p_kind text, p_data jsonb,
    p_names text[], p_media_types text[], p_digests text[], p_bodies bytea[], p_limit bigint, p_one_host boolean
) returns table (o_run_id uuid, o_session_id text, o_status text, o_new boolean, o_session uuid) language plpgsql as $$
declare
    v_at timestamptz := clock_timestamp();
    v_run uuid := {schema}.uuid7_1(null);
    v_first uuid := v_run;
    v_session uuid := {schema}.uuid7_1(null);
    -- Who names no session gets one by its internal name.
    v_session_id text := coalesce(p_session_id, v_session::text);
    v_known {schema}.idempotency_keys;
begin
    if p_one_host and {schema}.hosts_1() > 1 then
        raise exception 'several hosts' using errcode = 'SL500';
    end if;

    if p_key is not null then
        loop
            insert into {schema}.idempotency_keys (key, agent_id, user_id, session_id, fingerprint, run_id)
            values (p_key, p_agent_id, p_user_id, p_session_id, p_fingerprint, v_run) on conflict do nothing;
            exit when found;
            -- A later statement, for a later snapshot: the twin has committed by now, or it is gone and the key is free.
            select * into v_known from {schema}.idempotency_keys k where k.key = p_key;
            continue when not found;
            if (v_known.agent_id, v_known.user_id, v_known.session_id) is distinct from (p_agent_id, p_user_id, p_session_id) then
                raise exception 'another scope' using errcode = 'SL408';
            elsif v_known.fingerprint <> p_fingerprint then
                raise exception 'other input' using errcode = 'SL409';
            end if;
            return query select r.run_id, s.session_id, r.status, false, s.session
                from {schema}.runs r join {schema}.sessions s using (session) where r.run_id = v_known.run_id;
            return;
        end loop;
    end if;

    insert into {schema}.sessions as s (session, session_id, agent_id, user_id, created_at, updated_at, runs, last_run)
    values (v_session, v_session_id, p_agent_id, p_user_id, v_at, v_at, 1, v_run)
    on conflict (session_id) do update set updated_at = v_at, runs = s.runs + 1,
        last_run = case when excluded.last_run > s.last_run then excluded.last_run else {schema}.uuid7_1(s.last_run) end
        where s.agent_id = excluded.agent_id and s.user_id is not distinct from excluded.user_id
    returning s.session, s.last_run into v_session, v_run;
    if not found then
        raise exception 'another owner' using errcode = 'SL404';
    end if;
    -- Those that are being accepted at this moment do not see each other: the overshoot is as many as these.
    if p_limit is not null and (select sum(c.pending) from {schema}.run_counts c) >= p_limit then
        raise exception 'full' using errcode = 'SL429';
    end if;
    if p_key is not null and v_run <> v_first then
        update {schema}.idempotency_keys set run_id = v_run where key = p_key;
    end if;

    insert into {schema}.bindings as b (session, unended, kind, since) values (v_session, 1, p_kind, v_at)
    on conflict (session) do update set unended = b.unended + 1,
        kind = case when b.unended = 0 then excluded.kind else b.kind end,
        since = case when b.unended = 0 then excluded.since else b.since end;
    insert into {schema}.runs (run_id, session, agent_id, kind, status, created_at) values (v_run, v_session, p_agent_id, p_kind, 'PENDING', v_at);
    insert into {schema}.events (run_id, seq, type, data, first_index, frames, at) values (v_run, 0, 'run.submitted', p_data, 0, 0, v_at);
    if cardinality(p_names) > 0 then
        insert into {schema}.attachments (run_id, n, name, media_type, sha256, body)
        select v_run, a.n, a.name, a.media_type, a.sha256, a.body
        from unnest(p_names, p_media_types, p_digests, p_bodies) with ordinality a (name, media_type, sha256, body, n);
    end if;
    return query select v_run, v_session_id, 'PENDING', true, v_session;
end $$;

-- Whether workers of none, of one or of more hosts live.
create or replace function {schema}.hosts_1() returns bigint language sql stable as $$
    select count(*) from (select from {schema}.hosts h where h.seen_at > clock_timestamp() - interval '30 seconds' limit 2) h
$$;
