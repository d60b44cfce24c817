import { createReadStream } from 'node:fs';
import type { EndpointRecord, Finding } from '@oselya/inventory';
import {
  createCursorCodec,
  createDisconnectSignal,
  createPageQuery,
  paginate,
  type Server,
} from '@oselya/kit';
import type { Kysely } from 'kysely';
import { Type } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import { problem } from '../errors.ts';
import { nullable } from '../schema.ts';
import type { Tables } from '../tables.ts';
import { recordAudit } from './audit.ts';

const PAGE_LIMITS = { limit: 100, maxLimit: 1000 };

/** Maximum number of findings in an answer. All of them are counted. */
const MAX_FINDINGS = 1000;

const cursorCodec = createCursorCodec(
  Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
);

const recordExample = {
  id: 'assistant-api',
  name: 'Assistant',
  type: 'http',
  status: 'active',
  exposure: 'public' as const,
  docs: 'docs/operations.md',
  last_reviewed: '2026-02-11',
  url: 'https://***@oselya.example',
};

const recordSchema = Type.Unsafe<EndpointRecord>(
  Type.Object(
    {
      id: Type.String(),
      name: Type.String(),
      type: Type.String(),
      status: Type.String(),
      exposure: Type.Enum(['public', 'vpn', 'local', 'private', 'unknown']),
      docs: Type.String(),
      last_reviewed: Type.String(),
    },
    { additionalProperties: true },
  ),
);

const findingSchema = Type.Object({
  code: Type.String({ description: 'The rule; see docs/inventory/rules.' }),
  severity: Type.Enum(['error', 'warning']),
  message: Type.String(),
  record_id: nullable(Type.String()),
  record_index: nullable(Type.Integer({ description: 'Index of the record, from 0.' })),
  pointer: Type.String({ description: 'JSON pointer into the document.' }),
  line: Type.Integer(),
  column: Type.Integer(),
});

const inventorySchema = Type.Object(
  {
    records: Type.Array(recordSchema, {
      description: 'A page of the valid records, with masked credentials.',
    }),
    findings: Type.Array(findingSchema, {
      description: `The first ${MAX_FINDINGS} findings of the whole inventory; on the first page only.`,
    }),
    record_count: Type.Integer({ description: 'Number of records, valid or not.' }),
    error_count: Type.Integer(),
    warning_count: Type.Integer(),
    is_complete: Type.Boolean({ description: 'False if an error ended the reading early.' }),
  },
  {
    description: 'The inventory. `Link: …; rel="next"` leads to further records.',
    examples: [
      {
        records: [recordExample],
        findings: [
          {
            code: 'lint/missing-owner',
            severity: 'warning',
            message: 'the record does not name who runs the endpoint',
            record_id: 'assistant-api',
            record_index: 0,
            pointer: '/0',
            line: 2,
            column: 3,
          },
        ],
        record_count: 1,
        error_count: 0,
        warning_count: 1,
        is_complete: true,
      },
    ],
  },
);

/** Registers `GET /admin/inventory`. Contract 6. */
export function registerInventoryRoute(
  app: Server,
  { db, inventoryFile }: { db: Kysely<Tables>; inventoryFile: string | undefined },
): void {
  app.get(
    '/admin/inventory',
    {
      config: { access: { role: 'admin' }, errors: ['inventory_not_configured', 'unavailable'] },
      schema: {
        tags: ['admin'],
        summary: 'The inventory of endpoints, with its findings',
        description: 'The file in INVENTORY_FILE, which each request reads again.',
        querystring: Type.Object(createPageQuery(PAGE_LIMITS)),
        response: { 200: inventorySchema },
      },
    },
    async (request, reply) => {
      const { limit = PAGE_LIMITS.limit, cursor } = request.query;
      const from = cursorCodec.read(cursor) ?? 0;
      if (inventoryFile === undefined) throw problem('inventory_not_configured');
      await recordAudit(db, {
        action: 'others_data_read',
        actorId: getSignedInUser(request).id,
        userId: null,
        details: { data: 'inventory' },
      });
      const signal = createDisconnectSignal(reply);
      const { rows, findings, ...counts } = await readInventory(inventoryFile, {
        from,
        limit: limit + 1,
        signal,
      }).catch((cause: unknown) => {
        const detail = 'The inventory cannot be read: INVENTORY_FILE must name it.';
        throw problem('unavailable', { detail, cause });
      });
      const getCursor = ({ index }: { index: number }) => cursorCodec.write(index + 1);
      const page = paginate(rows, { limit, getCursor, request, reply });
      return {
        records: page.map(({ record }) => record),
        findings: from === 0 ? findings.map(presentFinding) : [],
        ...counts,
      };
    },
  );
}

/**
 * Reads at most `limit` valid records from the index `from`, and the first findings of the whole file, all masked.
 * @throws Errors of the file, such as ENOENT.
 */
async function readInventory(
  file: string,
  { from, limit, signal }: { from: number; limit: number; signal: AbortSignal },
) {
  // A static import of the package would noticeably delay startup.
  const { lintInventory, maskFinding, maskRecord, validateInventory } =
    await import('@oselya/inventory');
  const open = () => createReadStream(file, { signal });
  const rows: { index: number; record: EndpointRecord }[] = [];
  const validation = validateInventory(open(), {
    file,
    inspect({ value, isValid, index }) {
      if (isValid && index >= from && rows.length < limit) {
        rows.push({ index, record: maskRecord(value as EndpointRecord) });
      }
      return [];
    },
  });
  // The findings of the linter contain those of the schema.
  while ((await validation.next()).done !== true) continue;
  const findings: Finding[] = [];
  const severityCounts = { error: 0, warning: 0 };
  const lint = lintInventory(open(), { file });
  let result = await lint.next();
  while (result.done !== true) {
    severityCounts[result.value.severity] += 1;
    if (findings.length < MAX_FINDINGS) findings.push(maskFinding(result.value));
    result = await lint.next();
  }
  return {
    rows,
    findings,
    record_count: result.value.records,
    error_count: severityCounts.error,
    warning_count: severityCounts.warning,
    is_complete: result.value.isComplete,
  };
}

const presentFinding = ({
  code,
  severity,
  message,
  recordId,
  recordIndex,
  pointer,
  line,
  column,
}: Finding) => ({
  code,
  severity,
  message,
  record_id: recordId,
  record_index: recordIndex,
  pointer,
  line,
  column,
});
