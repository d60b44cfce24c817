import type { Position } from '../../finding.ts';
import { quotedId } from '../../shorten.ts';
import { defineRule } from '../rule.ts';

/** Finds ids that an earlier record has. It keeps all ids, so its memory grows with the inventory. */
export const duplicateId = defineRule({
  code: 'lint/duplicate-id',
  severity: 'error',
  begin() {
    const firsts = new Map<string, Position>();
    return ({ id }, { position }) => {
      if (id === undefined) return [];
      const first = firsts.get(id);
      if (first === undefined) {
        firsts.set(id, position);
        return [];
      }
      const { line, column } = first;
      const name = quotedId(id);
      return [
        {
          key: 'id',
          message: `the id ${name} belongs to the record at ${line}:${column} already; give each record an id of its own`,
          related: [{ line, column, message: `the first record with the id ${name}` }],
        },
      ];
    };
  },
});
