import pg from 'pg';

const { INT8, NUMERIC } = pg.types.builtins;

/**
 * Reads a PostgreSQL number as a JavaScript number.
 * @throws RangeError where the number is an integer that JavaScript cannot hold exactly.
 */
function toNumber(text: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && !Number.isSafeInteger(number)) {
    throw new RangeError(`The database returned ${text}, which JavaScript cannot hold exactly`);
  }
  return number;
}

/**
 * The type parsers of both engines. node-postgres gives `bigint` and `numeric` as text; ids, counts
 * and prices are numbers here.
 */
export const types: pg.CustomTypesConfig = {
  getTypeParser(oid, format) {
    if (format !== 'binary' && (oid === INT8 || oid === NUMERIC)) return toNumber;
    return pg.types.getTypeParser(oid, format);
  },
};
