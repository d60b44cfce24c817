import { quotedId } from '../../shorten.ts';
import { defineRule } from '../rule.ts';

/** Finds ids that an earlier record has, of the same inventory or of one before it. */
export const duplicateId = defineRule({
  code: 'lint/duplicate-id',
  severity: 'error',
  begin:
    (_, { file, ids }) =>
    ({ id }, { position }) => {
      const first = id === undefined ? null : ids.add(id, file, position);
      if (id === undefined || first === null) return [];
      const { line, column } = first;
      const name = quotedId(id);
      const isElsewhere = first.file !== file;
      const where = `${isElsewhere ? `${first.file}:` : ''}${line}:${column}`;
      return [
        {
          key: 'id',
          message: `the id ${name} belongs to the record at ${where} already; give each record an id of its own`,
          related: [
            {
              ...(isElsewhere && { file: first.file }),
              line,
              column,
              message: `the first record with the id ${name}`,
            },
          ],
        },
      ];
    },
});
