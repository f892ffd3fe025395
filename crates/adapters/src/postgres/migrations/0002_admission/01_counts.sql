-- How many runs there are of each status, kept in the transactions that change it, in many rows: one row would be a queue of all accepts. A row's
-- figures may be negative; their sum is right.
create table if not exists {schema}.run_counts (
    shard int primary key,
    pending bigint not null default 0,
    running bigint not null default 0,
    completed bigint not null default 0,
    error bigint not null default 0,
    cancelled bigint not null default 0
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
insert into {schema}.run_counts (shard) select n from generate_series(0, 63) n on conflict do nothing;

-- For lists of one status, and the oldest that waits.
create index if not exists runs_by_status on {schema}.runs (status, run_id);

-- Triggers, and not the functions: those of the release before count too.
create or replace function {schema}.count_1() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' and new.status = 'PENDING' then
        update {schema}.run_counts c set pending = c.pending + 1 where c.shard = pg_backend_pid() % 64;
    elsif tg_op = 'INSERT' then
        update {schema}.run_counts c set running = c.running + (new.status = 'RUNNING')::int, completed = c.completed + (new.status = 'COMPLETED')::int,
            error = c.error + (new.status = 'ERROR')::int, cancelled = c.cancelled + (new.status = 'CANCELLED')::int
        where c.shard = pg_backend_pid() % 64;
    else
        update {schema}.run_counts c set pending = c.pending + (new.status = 'PENDING')::int - (old.status = 'PENDING')::int,
            running = c.running + (new.status = 'RUNNING')::int - (old.status = 'RUNNING')::int,
            completed = c.completed + (new.status = 'COMPLETED')::int - (old.status = 'COMPLETED')::int,
            error = c.error + (new.status = 'ERROR')::int - (old.status = 'ERROR')::int,
            cancelled = c.cancelled + (new.status = 'CANCELLED')::int - (old.status = 'CANCELLED')::int
        where c.shard = pg_backend_pid() % 64;
    end if;
    return null;
end $$;

-- Of many at once: a row that one transaction changes a million times is read through a million versions.
create or replace function {schema}.uncount_1() returns trigger language plpgsql as $$
begin
    update {schema}.run_counts c set pending = c.pending - g.pending, running = c.running - g.running, completed = c.completed - g.completed,
        error = c.error - g.error, cancelled = c.cancelled - g.cancelled
    from (select count(*) filter (where status = 'PENDING') as pending, count(*) filter (where status = 'RUNNING') as running,
        count(*) filter (where status = 'COMPLETED') as completed, count(*) filter (where status = 'ERROR') as error,
        count(*) filter (where status = 'CANCELLED') as cancelled, count(*) as runs from gone) g
    where c.shard = pg_backend_pid() % 64 and g.runs > 0;
    return null;
end $$;

-- Puts the counts right where somebody changed runs behind the triggers (a restore of data alone, say). Those of ended runs are looked at only where
-- that is asked for: it reads all of them. One statement sees one moment, in which counts and runs agree.
create or replace function {schema}.recount_1(p_ended boolean) returns boolean language plpgsql security definer set search_path = pg_catalog as $$
begin
    if not p_ended and (select count(*) filter (where r.status = 'PENDING') = (select sum(c.pending) from {schema}.run_counts c)
            and count(*) filter (where r.status = 'RUNNING') = (select sum(c.running) from {schema}.run_counts c)
        from {schema}.runs r where r.status in ('PENDING', 'RUNNING')) then
        return false;
    end if;
    -- Who has counted has committed; who will count waits, and is not seen below.
    lock table {schema}.run_counts in share row exclusive mode;
    update {schema}.run_counts c set
        pending = case c.shard when 0 then (select count(*) from {schema}.runs r where r.status = 'PENDING') else 0 end,
        running = case c.shard when 0 then (select count(*) from {schema}.runs r where r.status = 'RUNNING') else 0 end;
    if p_ended then
        update {schema}.run_counts c set
            completed = case c.shard when 0 then (select count(*) from {schema}.runs r where r.status = 'COMPLETED') else 0 end,
            error = case c.shard when 0 then (select count(*) from {schema}.runs r where r.status = 'ERROR') else 0 end,
            cancelled = case c.shard when 0 then (select count(*) from {schema}.runs r where r.status = 'CANCELLED') else 0 end;
    end if;
    return true;
end $$;

-- At the end of a transaction, so that a row is held only while it commits.
do $do$ begin
    if not exists (select from pg_trigger where tgrelid = '{schema}.runs'::regclass and tgname = 'runs_accepted') then
        create constraint trigger runs_accepted after insert on {schema}.runs deferrable initially deferred
            for each row execute function {schema}.count_1();
        create constraint trigger runs_moved after update of status on {schema}.runs deferrable initially deferred
            for each row when (old.status is distinct from new.status) execute function {schema}.count_1();
        create trigger runs_gone after delete on {schema}.runs referencing old table as gone
            for each statement execute function {schema}.uncount_1();
        perform {schema}.recount_1(true);
    end if;
end $do$;
