import { readFile } from 'node:fs/promises';
import { type Static, type TSchema, Type } from 'typebox';
import { Value } from 'typebox/value';
import { type Document, isMap, isNode, isScalar, LineCounter, parseDocument } from 'yaml';

/** Maximum size of a profile file, which leaves room for texts of maximum length. */
const MAX_FILE_BYTES = 256 * 1024;

// A message about an invalid value ends with the description: "name must be 1 to 100 characters".
const buildTextSchema = (description: string, options: { minLength?: number; maxLength: number }) =>
  Type.String({ ...options, description });

/** Creates the schema of a profile file. Specification 000, Ownership columns; Contract 3, Profiles. */
const createProfileSchema = (toolNames: readonly string[]) =>
  Type.Object(
    {
      profile_id: Type.String({
        pattern: '^[a-z0-9][a-z0-9_-]{0,63}$',
        description: 'must be 1 to 64 lower-case letters, digits, _ and -, the first no _ or -',
      }),
      name: buildTextSchema('must be 1 to 100 characters', { minLength: 1, maxLength: 100 }),
      description: Type.Optional(
        buildTextSchema('must be at most 1,000 characters', { maxLength: 1000 }),
      ),
      system: buildTextSchema('must be 1 to 32,000 characters', {
        minLength: 1,
        maxLength: 32_000,
      }),
      model: Type.Optional(buildTextSchema('must be at most 200 characters', { maxLength: 200 })),
      tools: Type.Optional(
        Type.Array(Type.Enum([...toolNames]), {
          uniqueItems: true,
          description: `must list each tool once, of: ${toolNames.join(', ')}`,
        }),
      ),
      is_admin_only: Type.Optional(Type.Boolean({ description: 'must be true or false' })),
    },
    { additionalProperties: false },
  );

/** Agent that users can chat with. */
export type Profile = Required<Static<ReturnType<typeof createProfileSchema>>>;

export type ParsedProfile = { profile: Profile; idLine: number };

type Violation = { line: number; rule: string };

export type ProfileRules = {
  toolNames: readonly string[];
  /** Returns the rule that a valid profile breaks in this installation, or undefined. */
  check?: (profile: Profile) => string | undefined;
};

/** Reads a profile file. An unreadable file is a violation. */
export async function readProfileFile(
  path: string,
  rules: ProfileRules,
): Promise<ParsedProfile | { violations: readonly Violation[] }> {
  try {
    const bytes = await readFile(path);
    if (bytes.length > MAX_FILE_BYTES) {
      return { violations: [{ line: 1, rule: `must be at most ${MAX_FILE_BYTES / 1024} KiB` }] };
    }
    return parseProfile(new TextDecoder('utf-8', { fatal: true }).decode(bytes), rules);
  } catch (error) {
    return { violations: [{ line: 1, rule: `cannot be read: ${formatReason(error)}` }] };
  }
}

/** Parses the text of a profile file. Returns the profile, or all violations; syntax errors hide other violations. */
export function parseProfile(
  content: string,
  { toolNames, check = () => undefined }: ProfileRules,
): ParsedProfile | { violations: readonly Violation[] } {
  const schema = createProfileSchema(toolNames);
  const lineCounter = new LineCounter();
  // Warnings become violations, so the parser must not print them.
  const options = { lineCounter, prettyErrors: false, logLevel: 'error' } as const;
  const document = parseDocument(content, options);
  const createViolation = (offset: number, rule: string): Violation => ({
    // The parser counts an empty document's line as 0.
    line: Math.max(1, lineCounter.linePos(offset).line),
    rule,
  });
  const syntaxErrors = [...document.errors, ...document.warnings];
  if (syntaxErrors.length > 0) {
    return { violations: syntaxErrors.map(({ pos, message }) => createViolation(pos[0], message)) };
  }
  const names = Object.keys(schema.properties);
  if (!isMap(document.contents)) {
    return { violations: [createViolation(0, `must be a map with ${names.join(', ')}`)] };
  }
  let value: Readonly<Record<string, unknown>>;
  try {
    value = document.toJS() as Readonly<Record<string, unknown>>;
  } catch (error) {
    // For example, an alias is undefined, or its expansion is too large.
    return { violations: [createViolation(0, formatReason(error))] };
  }

  const unknownFieldViolations = document.contents.items
    .map(({ key }) => ({
      offset: isNode(key) ? (key.range?.[0] ?? 0) : 0,
      name: isScalar(key) ? String(key.value) : 'a key that is not text',
    }))
    .filter(({ name }) => !names.includes(name))
    .map(({ offset, name }) =>
      createViolation(offset, `${name} is unknown: a profile has ${names.join(', ')}`),
    );
  const invalidFieldViolations = Object.entries<TSchema & { description?: string }>(
    schema.properties,
  ).flatMap(([name, field]) => {
    if (!Object.hasOwn(value, name)) {
      const isRequired = (schema.required as readonly string[]).includes(name);
      const rule = `${name} is missing: it ${field.description}`;
      return isRequired ? [createViolation(findOffset(document, []), rule)] : [];
    }
    const [error] = Value.Errors(field, value[name]);
    if (error === undefined) return [];
    const path = [name, ...error.instancePath.split('/').slice(1)];
    return [createViolation(findOffset(document, path), `${name} ${field.description}`)];
  });
  if (!Value.Check(schema, value))
    return { violations: [...unknownFieldViolations, ...invalidFieldViolations] };
  const profile = { description: '', model: '', tools: [], is_admin_only: false, ...value };
  const idLine = createViolation(findOffset(document, ['profile_id']), '').line;
  const violatedRule = check(profile);
  return violatedRule === undefined
    ? { profile, idLine }
    : { violations: [{ line: idLine, rule: violatedRule }] };
}

function findOffset(document: Document, path: readonly string[]): number {
  const node = path.length === 0 ? document.contents : document.getIn(path, true);
  return isNode(node) ? (node.range?.[0] ?? 0) : 0;
}

/** Returns the message of an error. */
export const formatReason = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
