-- What only the schema's owner may do to the log, as calls that the functions' role may make.

-- Weekly partitions, so that there are always four weeks ahead.
create or replace function {schema}.make_partitions_1() returns void language plpgsql security definer set search_path = pg_catalog as $$
declare
    v_week timestamptz;
    v_name text;
begin
    for v_week in select date_trunc('week', now() at time zone 'UTC') at time zone 'UTC' + make_interval(weeks => n) from generate_series(0, 4) n loop
        v_name := 'events_' || to_char(v_week at time zone 'UTC', 'YYYYMMDD');
        continue when to_regclass(quote_ident('{schema_name}') || '.' || v_name) is not null;
        begin
            execute format('create table {schema}.%I partition of {schema}.events for values from (%L) to (%L)', v_name,
                {schema}.uuid7_from_1(v_week), {schema}.uuid7_from_1(v_week + interval '1 week'));
        exception when check_violation then
            -- Runs of that week are in the default partition already; they stay there.
            raise warning 'sandlog: % was not made: its runs are in events_default', v_name;
        end;
    end loop;
end $$;

-- Erases a session: 'gone', 'unknown', or 'busy' while a run of it has not ended.
create or replace function {schema}.erase_1(p_session_id text, p_scoped boolean, p_user_id text)
returns text language plpgsql security definer set search_path = pg_catalog as $$
declare
    v_session uuid;
    v_binding {schema}.bindings;
    v_runs uuid[];
begin
    select s.session into v_session from {schema}.sessions s
    where s.session_id = p_session_id and (not p_scoped or s.user_id is not distinct from p_user_id) for update;
    if not found then
        return 'unknown';
    end if;
    select * into v_binding from {schema}.bindings b where b.session = v_session for update;
    if v_binding.unended > 0 then
        return 'busy';
    end if;
    v_runs := array(select r.run_id from {schema}.runs r where r.session = v_session);
    delete from {schema}.idempotency_keys where run_id = any (v_runs);
    delete from {schema}.attachments where run_id = any (v_runs);
    delete from {schema}.sessions where session = v_session;
    delete from {schema}.bindings where session = v_session;
    delete from {schema}.runs where session = v_session;
    delete from {schema}.events where run_id = any (v_runs);
    insert into {schema}.erased_runs select r, clock_timestamp() from unnest(v_runs) r;
    insert into {schema}.erasures select v_session, h, clock_timestamp() from unnest(v_binding.visited) h;
    return 'gone';
end $$;

create or replace function {schema}.upkeep_1() returns void language plpgsql security definer set search_path = pg_catalog as $$
declare
    v_late uuid[] := array(select e.run_id from {schema}.erased_runs e where e.at < clock_timestamp() - interval '1 minute' order by 1 limit 1000);
begin
    perform {schema}.make_partitions_1();
    delete from {schema}.events where run_id = any (v_late);
    delete from {schema}.erased_runs where run_id = any (v_late);
end $$;

-- Drops the partitions that end before p_before, but only where every run in them has ended.
create or replace function {schema}.drop_partitions_1(p_before timestamptz) returns int language plpgsql security definer set search_path = pg_catalog as $$
declare
    v_name text;
    v_week timestamptz;
    v_dropped int := 0;
begin
    for v_name in select c.relname from pg_class c join pg_inherits i on i.inhrelid = c.oid
        where i.inhparent = to_regclass('{schema}.events') and c.relname ~ '^events_[0-9]{8}$' order by 1 loop
        v_week := to_date(right(v_name, 8), 'YYYYMMDD')::timestamp at time zone 'UTC';
        exit when v_week + interval '1 week' > p_before;
        continue when exists (select 1 from {schema}.runs r where r.status in ('PENDING', 'RUNNING')
            and r.run_id >= {schema}.uuid7_from_1(v_week) and r.run_id < {schema}.uuid7_from_1(v_week + interval '1 week'));
        execute format('drop table {schema}.%I', v_name);
        -- A run is kept as long as its events are, and a key as long as its run.
        delete from {schema}.idempotency_keys k using {schema}.runs r where k.run_id = r.run_id
            and r.run_id >= {schema}.uuid7_from_1(v_week) and r.run_id < {schema}.uuid7_from_1(v_week + interval '1 week');
        delete from {schema}.attachments
        where run_id >= {schema}.uuid7_from_1(v_week) and run_id < {schema}.uuid7_from_1(v_week + interval '1 week');
        delete from {schema}.runs where run_id >= {schema}.uuid7_from_1(v_week) and run_id < {schema}.uuid7_from_1(v_week + interval '1 week');
        v_dropped := v_dropped + 1;
    end loop;
    return v_dropped;
end $$;

select {schema}.make_partitions_1();
insert into {schema}.migrations (version) values (1) on conflict do nothing;
