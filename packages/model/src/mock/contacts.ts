import { compilePattern } from './text.ts';

const SEPARATOR_SOURCE = String.raw`[\s\-.()]{0,3}`;

/** Pattern of Ukrainian numbers with or without the country code: 0 and nine digits, in any grouping. */
const NATIONAL_NUMBER = String.raw`(?:\+?3?8${SEPARATOR_SOURCE})?\(?0(?:${SEPARATOR_SOURCE}\d){9}`;
/** Pattern of international numbers with a plus sign: 8 to 15 digits (ITU-T E.164). */
const INTERNATIONAL_NUMBER = String.raw`\+[1-9](?:${SEPARATOR_SOURCE}\d){7,14}`;

const PHONE_PATTERN = new RegExp(
  String.raw`(?<![\d+])(?:${NATIONAL_NUMBER}|${INTERNATIONAL_NUMBER})(?!\d)`,
  'gu',
);

/** Returns the distinct phone numbers in text, in international form such as `+380501234567`. */
export function readPhones(text: string): string[] {
  const phones = Array.from(text.matchAll(PHONE_PATTERN), ([phone]) => {
    const digits = phone.replace(/\D/gu, '');
    return phone.startsWith('+') ? `+${digits}` : `+380${digits.slice(-9)}`;
  });
  return [...new Set(phones)];
}

/** Replaces each phone number with ☎, so that no rule reads its digits as a price or an area. */
export function maskPhones(text: string): string {
  return text.replace(PHONE_PATTERN, '☎');
}

const NAME_SOURCE = String.raw`(\p{Lu}[\p{Ll}'-]{2,20}(?: \p{Lu}[\p{Ll}'-]{2,20})?)(?![\p{L}])`;
const ROLE_SOURCE = String.raw`(?:[Вв]ласни(?:к|ця)|[Гг]осподиня|[Хх]озя(?:ин|йка)|[Рр]иэлтор|[Рр](?:іє|ие)лтор|[Аа]гент|[Oo]wner|[Ll]andlord|[Aa]gent)`;

/** Patterns for a name: after an introduction, beside a role, and beside a phone number. */
const NAME_PATTERNS = [
  String.raw`(?:[Кк]онтактна особа|[Кк]онтактное лицо|[Кк]онтакт(?:и|ы)?|[Cc]ontact(?: person)?)\s?[:-]\s?${NAME_SOURCE}`,
  String.raw`(?:[Мм]ене звати|[Мм]еня зовут|[Mm]y name is|[Ii]'m|[Aa]sk for|[Cc]all|[Пп]итайте|[Сс]прашивать) ${NAME_SOURCE}`,
  String.raw`(?:[Тт]елефонуйте|[Дд]звоніть|[Зз]воните|[Пп]ишіть|[Пп]ишите|[Тт]ел\.?)[,:]? (?:пані |пан )?${NAME_SOURCE}`,
  String.raw`(?<!\p{L})${ROLE_SOURCE}[,:]? (?:- )?(?:пані |пан )?${NAME_SOURCE}`,
  String.raw`(?:^|[.!\n] ?)${NAME_SOURCE},? ${ROLE_SOURCE}(?![\p{L}])`,
  String.raw`☎[ ,]{0,2}[(-]?\s?${NAME_SOURCE}`,
  String.raw`(?:^|[.,:!\n] ?)${NAME_SOURCE}[ ,:-]{0,3}☎`,
].map((source) => compilePattern(source));

/** Capitalized words that appear in the same positions but are not names. */
const NON_NAME_PATTERN = compilePattern(
  String.raw`^(?:Тел|Телефон|Дзвоніть|Звоните|Телефонуйте|Пишіть|Пишите|Viber|Вайбер|Telegram|Телеграм|WhatsApp|Phone|Call|Ціна|Цена|Price|Без|Торг|Київ|Киев|Львів|Львов|Одеса|Одесса|Any|The|This|Only|Прошу|Для|Показ|For|Deposit|Комісія|Комиссия|Агент|Власник|Хозяин|Us|Now|Today|Me)(?!\p{L})`,
);

/**
 * Reads the name of the person who offers the property.
 * @param maskedText The cleaned text, with ☎ in place of each phone number.
 */
export function readContactName(maskedText: string): string | null {
  const names = NAME_PATTERNS.map((pattern) => pattern.exec(maskedText)?.[1]);
  return names.find((name) => name !== undefined && !NON_NAME_PATTERN.test(name)) ?? null;
}
