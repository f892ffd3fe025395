-- What tells an event that comes by a signal from a forged one: known to who may read the log, and to nobody who may only write to Redis. A table of its own,
-- since to change one that is there waits for every reader of it (a dump), and all writers would wait behind that.
create table if not exists {schema}.seal (
    one boolean primary key default true check (one),
    secret text not null default replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '')
);
insert into {schema}.seal default values on conflict do nothing;

insert into {schema}.migrations (version) values (3) on conflict do nothing;
