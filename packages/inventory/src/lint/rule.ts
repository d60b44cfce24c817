import type { ReadRecord } from '../check/check-record.ts';
import type { RelatedPlace, Severity } from '../finding.ts';
import type { EndpointRecord } from '../record.ts';
import type { Day } from '../day.ts';
import type { IdRegister } from './id-register.ts';
import type { LintCode } from '../rule-ids.ts';

/** What a rule finds wrong with a property of a record; with the whole record when the key is empty. */
export type Found = {
  key: string;
  message: string;
  /** The value that mends it for certain. */
  mended?: string | number;
  related?: RelatedPlace[];
};

/** Looks at the records of one inventory, one after another. */
export type Look = (fields: Fields, record: ReadRecord) => readonly Found[];

/**
 * The properties of a record that have the type that the schema gives them. What has another type is the
 * schema's concern and not a rule's.
 */
export type Fields = Readonly<Partial<EndpointRecord>>;

/** What a rule is told before it looks at an inventory. */
export type Context = {
  today: Day;
  /** How findings name the inventory. */
  file: string;
  /** The ids of this inventory, and of those before it. */
  ids: IdRegister;
};

/** One rule of the linter. */
export type Rule = {
  code: LintCode;
  severity: Severity;
  /** JSON Schemas (draft 2020-12) of what can be set in inventory.config.json, by name. */
  options: Readonly<Record<string, object>>;
  /** @param options As they stand in the configuration, checked against their schemas. */
  begin(options: object, context: Context): Look;
};

/** Defines a rule that keeps something from record to record, or has options. */
export function defineRule<Options extends object = object>(rule: {
  code: LintCode;
  severity: Severity;
  options?: Record<keyof Options, object>;
  defaults?: Options;
  begin: (options: Options, context: Context) => Look;
}): Rule {
  const { code, severity, options = {}, defaults, begin } = rule;
  return {
    code,
    severity,
    options,
    // What is configured has the types that the schemas of the options say.
    begin: (given, context) => begin({ ...defaults, ...given } as Options, context),
  };
}

/** Defines a rule that has no options and looks at each record by itself. */
export function simpleRule(
  code: LintCode,
  severity: Severity,
  look: (fields: Fields) => readonly Found[],
): Rule {
  return defineRule({ code, severity, begin: () => look });
}
