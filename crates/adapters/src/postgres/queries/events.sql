select seq, type, data, first_index, {schema}.millis_1(at) from {schema}.events where run_id = $1 and seq >= $2 order by seq limit $3
