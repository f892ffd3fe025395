-- What tells an event that comes by a signal from a forged one: known to who may read the log, and to nobody who may only write to Redis. Asked before it is
-- changed, since a change waits for every reader of the table (a dump), and others would wait behind it.
do $$ begin
    if not exists (select from pg_attribute where attrelid = '{schema}.deployment'::regclass and attname = 'secret' and not attisdropped) then
        alter table {schema}.deployment add column secret text not null default replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');
    end if;
end $$;

insert into {schema}.migrations (version) values (3) on conflict do nothing;
