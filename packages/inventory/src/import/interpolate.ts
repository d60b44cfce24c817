/** A text as Compose reads it where no variable is set. */
export type Interpolated = {
  /** The text; what nobody knows stands in it as `${NAME}`. */
  text: string;
  /** The names of the variables that are not known, in the order of the text. */
  unknown: string[];
};

/** A variable whose closing brace is still to come. */
type Open = {
  /** The variable up to what stands behind its operator, as it is written. */
  opening: string;
  name: string;
  operator: string;
  /** What the text around it has been so far. */
  before: string;
  /** How many variables were unknown before it. */
  unknownBefore: number;
};

const NAME = '[_a-zA-Z][_a-zA-Z0-9]*';
const TOKEN = new RegExp(
  `\\$\\$|\\$(?<bare>${NAME})|\\$\\{(?<name>${NAME})(?:\\}|(?<operator>:?[-?+]))|\\}`,
  'g',
);

/**
 * Interpolates a value of a Compose file, of which the environment is not known: a variable stands for its default,
 * and for nothing where `+` says what stands there if it is set. One without a default, or that is required, is
 * unknown. `$$` is a dollar sign; what is no variable stays as it is.
 * https://github.com/compose-spec/compose-spec/blob/main/12-interpolation.md
 */
export function interpolate(written: string): Interpolated {
  const unknown: string[] = [];
  const open: Open[] = [];
  let text = '';
  let index = 0;
  for (const match of written.matchAll(TOKEN)) {
    const [token] = match;
    const { bare, name, operator } = match.groups ?? {};
    text += written.slice(index, match.index);
    index = match.index + token.length;
    if (token === '$$') {
      text += '$';
    } else if (operator !== undefined && name !== undefined) {
      open.push({ opening: token, name, operator, before: text, unknownBefore: unknown.length });
      text = '';
    } else if (token === '}') {
      text = closed(open.pop(), text, unknown);
    } else {
      text += unknownVariable(name ?? bare ?? '', unknown);
    }
  }
  text += written.slice(index);
  // What is not closed is no variable.
  for (const { before, opening } of open.toReversed()) text = before + opening + text;
  return { text, unknown };
}

/** The text up to the end of a variable, when the brace closes one. */
function closed(variable: Open | undefined, inner: string, unknown: string[]): string {
  if (variable === undefined) return `${inner}}`;
  const { name, operator, before, unknownBefore } = variable;
  if (operator.endsWith('-')) return before + inner;
  // Messages, and what is not put in place, are not asked for the variables in them.
  unknown.length = unknownBefore;
  return operator.endsWith('+') ? before : before + unknownVariable(name, unknown);
}

function unknownVariable(name: string, unknown: string[]): string {
  unknown.push(name);
  return `\${${name}}`;
}
