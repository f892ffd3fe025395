select seq, type, data, first_index, {schema}.millis_1(at) from {schema}.events
where run_id = $1 and frames > 0 and first_index + frames > $2 order by first_index + frames limit $3
