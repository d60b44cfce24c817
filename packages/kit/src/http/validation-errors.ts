/** A rule that a value breaks, as Ajv tells of it. */
export type BrokenRule = {
  keyword: string;
  /** Where the value is, as a JSON pointer. */
  instancePath: string;
  /** Where the rule is, its keyword last. */
  schemaPath: string;
  message?: string | undefined;
  params: object;
};

/**
 * What is wrong with a value, and where in it. A union whose members all refuse a value is told of once,
 * as what would be right, in place of the refusals of each member. Contract 2, `errors`.
 * @param context What the value is: the first part of every path.
 */
export function describeErrors(
  context: string,
  broken: readonly BrokenRule[],
): { path: string; message: string }[] {
  const places = Map.groupBy(broken, ({ instancePath }) => instancePath);
  const unions = new Set(broken.filter(isUnion).map(({ instancePath }) => instancePath));
  return [...places].flatMap(([place, rules]) => {
    const messages = isWithin(unions, place)
      ? [describeChoice(rules)]
      : withoutImplied(rules).map(describeRule);
    return messages.map((message) => ({ path: `${context}${place}`, message }));
  });
}

const isUnion = ({ keyword }: BrokenRule) => keyword === 'anyOf' || keyword === 'oneOf';

/** Whether a place, or one that it is in, is among some. */
function isWithin(places: ReadonlySet<string>, place: string): boolean {
  if (places.has(place)) return true;
  return place !== '' && isWithin(places, place.slice(0, place.lastIndexOf('/')));
}

/** What would be right where each rule is that of another member of a union. */
function describeChoice(rules: readonly BrokenRule[]): string {
  const members = withoutImplied(rules).filter((rule) => !isUnion(rule));
  const values = members.flatMap(allowedValues);
  const others = members.filter((rule) => allowedValues(rule).length === 0);
  // Where a union stands alone its members refuse what is deeper in the value, in places of its own.
  const told = members.length === 0 ? rules : others;
  const messages = new Set(told.map(describeRule));
  if (values.length > 0) messages.add(mustBe(values));
  return [...messages].join(', or ');
}

/** Where a schema names the values that it allows, their type says nothing more. */
function withoutImplied(rules: readonly BrokenRule[]): BrokenRule[] {
  const schemaOf = ({ schemaPath }: BrokenRule) => schemaPath.slice(0, schemaPath.lastIndexOf('/'));
  const naming = new Set(rules.filter((rule) => allowedValues(rule).length > 0).map(schemaOf));
  return rules.filter(
    (rule) => rule.keyword !== 'type' || isNull(rule) || !naming.has(schemaOf(rule)),
  );
}

/** Ajv leaves the name of an unknown key and the allowed values out of its messages. */
function describeRule(rule: BrokenRule): string {
  const text = rule.message ?? 'is not valid';
  const unknown: unknown = Reflect.get(rule.params, 'additionalProperty');
  if (typeof unknown === 'string') return `${text}: ${JSON.stringify(unknown)} is unknown`;
  const values = allowedValues(rule);
  return values.length > 0 ? mustBe(values) : text;
}

const isNull = ({ keyword, params }: BrokenRule) =>
  keyword === 'type' && Reflect.get(params, 'type') === 'null';

/** The values that a rule names. */
function allowedValues(rule: BrokenRule): unknown[] {
  if (isNull(rule)) return [null];
  if (rule.keyword === 'const') return [Reflect.get(rule.params, 'allowedValue')];
  const listed: unknown = rule.keyword === 'enum' ? Reflect.get(rule.params, 'allowedValues') : [];
  return Array.isArray(listed) ? listed : [];
}

function mustBe(values: readonly unknown[]): string {
  const texts = new Set(
    values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value))),
  );
  return texts.size === 1
    ? `must be ${[...texts].join('')}`
    : `must be one of ${[...texts].join(', ')}`;
}
