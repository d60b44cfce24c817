import { compilePattern } from './text.ts';

const SEPARATORS = String.raw`[\s\-.()]{0,3}`;

/** Ukrainian numbers with or without the country code: 0 and nine digits, in any grouping. */
const NATIONAL = String.raw`(?:\+?3?8${SEPARATORS})?\(?0(?:${SEPARATORS}\d){9}`;
/** International numbers with a plus sign: 8 to 15 digits (ITU-T E.164). */
const INTERNATIONAL = String.raw`\+[1-9](?:${SEPARATORS}\d){7,14}`;

const PHONE = new RegExp(String.raw`(?<![\d+])(?:${NATIONAL}|${INTERNATIONAL})(?!\d)`, 'gu');

/** Converts a phone number to international form, such as `+380501234567`. Returns null for other text. */
export function normalizePhone(written: string): string | null {
  const digits = written.replace(/\D/gu, '');
  if (written.trim().startsWith('+')) {
    return digits.length >= 8 && digits.length <= 15 ? `+${digits}` : null;
  }
  if (/^0\d{9}$/u.test(digits)) return `+38${digits}`;
  if (/^80\d{9}$/u.test(digits)) return `+3${digits}`;
  if (/^380\d{9}$/u.test(digits)) return `+${digits}`;
  return null;
}

/** Returns the distinct phone numbers of a text in the order of their first occurrence. */
export function readPhones(text: string): string[] {
  const found = [...text.matchAll(PHONE)].map(([written]) => normalizePhone(written));
  return [...new Set(found.filter((phone) => phone !== null))];
}

/** Replaces each phone number by ☎, so that its digits are not read as a price or an area. */
export function maskPhones(text: string): string {
  return text.replace(PHONE, '☎');
}

const NAME = String.raw`\p{Lu}[\p{Ll}'-]{2,20}(?: \p{Lu}[\p{Ll}'-]{2,20})?`;

/** Patterns for a name after introductory words. */
const INTRODUCTIONS = [
  String.raw`(?:[Кк]онтактна особа|[Кк]онтактное лицо|[Кк]онтакт(?:и|ы)?|[Cc]ontact(?: person)?)\s?[:-]\s?`,
  String.raw`(?:[Мм]ене звати|[Мм]еня зовут|[Mm]y name is|[Ii]'m|[Aa]sk for|[Cc]ontact|[Cc]all|[Тт]ext|[Mm]essage|[Пп]итайте|[Сс]прашивать|[Зз]вертайтес[ья] до|[Пп]итати) `,
  String.raw`(?:[Вв]ласник|[Вв]ласниця|[Хх]озяин|[Хх]озяйка|[Хх]азяйка|[Гг]осподиня|[Рр]і[еє]лтор(?:ка)?|[Рр]и[еэ]лтор|[Аа]гент|[Oo]wner|[Ll]andlord|[Aa]gent)[,:]? (?:- )?(?:пані |пан )?`,
  String.raw`(?:[Тт]елефонуйте|[Дд]звоніть|[Зз]воните|[Пп]ишіть|[Пп]ишите|[Тт]ел\.?|[Зз]вонить)[,:]? (?:пані |пан )?`,
  String.raw`☎[ ,]{0,2}[(-]?\s?`,
].map((lead) => compilePattern(`${lead}(${NAME})(?![\\p{L}])`));

/** A name with a role after it: "Владимир, хозяин". */
const NAME_AND_ROLE = compilePattern(
  `(?:^|[.!\\n] ?)(${NAME}),? (?:власник|власниця|хозяин|хозяйка|рієлтор|риелтор|агент|owner|agent)(?![\\p{L}])`,
);
/** A name before a phone number: "Олена ☎". */
const BEFORE_PHONE = compilePattern(`(?:^|[.,:!\\n] ?)(${NAME})[ ,:-]{0,3}☎`);

/** Capitalized words that appear in the same positions but are not names. */
const NO_NAMES = compilePattern(
  String.raw`^(?:Тел|Телефон|Дзвоніть|Звоните|Телефонуйте|Пишіть|Пишите|Viber|Вайбер|Telegram|Телеграм|WhatsApp|Phone|Call|Ціна|Цена|Price|Без|Торг|Київ|Киев|Львів|Львов|Одеса|Одесса|Any|The|This|Only|Прошу|Для|Показ|For|Deposit|Комісія|Комиссия|Агент|Власник|Хозяин|Us|Now|Today|Me)(?!\p{L})`,
);

/**
 * Reads the name of the person who offers the property.
 * @param masked The cleaned text, with ☎ in place of each phone number.
 */
export function readContactName(masked: string): string | null {
  for (const pattern of [...INTRODUCTIONS, NAME_AND_ROLE, BEFORE_PHONE]) {
    const name = pattern.exec(masked)?.[1];
    if (name !== undefined && !NO_NAMES.test(name)) return name;
  }
  return null;
}
