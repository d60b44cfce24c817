import { compilePattern } from './text.ts';

const SEPARATORS = String.raw`[\s\-.()]{0,3}`;

/** Ukrainian numbers with or without the country code: 0 and nine digits, in any grouping. */
const NATIONAL = String.raw`(?:\+?3?8${SEPARATORS})?\(?0(?:${SEPARATORS}\d){9}`;
/** International numbers with a plus sign: 8 to 15 digits (ITU-T E.164). */
const INTERNATIONAL = String.raw`\+[1-9](?:${SEPARATORS}\d){7,14}`;

const PHONE = new RegExp(String.raw`(?<![\d+])(?:${NATIONAL}|${INTERNATIONAL})(?!\d)`, 'gu');

/** Returns the distinct phone numbers of a text in international form, such as `+380501234567`. */
export function readPhones(text: string): string[] {
  const phones = Array.from(text.matchAll(PHONE), ([written]) => {
    const digits = written.replace(/\D/gu, '');
    return written.startsWith('+') ? `+${digits}` : `+380${digits.slice(-9)}`;
  });
  return [...new Set(phones)];
}

/** Replaces each phone number by ☎, so that its digits are not read as a price or an area. */
export function maskPhones(text: string): string {
  return text.replace(PHONE, '☎');
}

const NAME = String.raw`(\p{Lu}[\p{Ll}'-]{2,20}(?: \p{Lu}[\p{Ll}'-]{2,20})?)(?![\p{L}])`;
const ROLE = String.raw`(?:[Вв]ласни(?:к|ця)|[Гг]осподиня|[Хх]озя(?:ин|йка)|[Рр]иэлтор|[Рр](?:іє|ие)лтор|[Аа]гент|[Oo]wner|[Ll]andlord|[Aa]gent)`;

/** Patterns for a name: after an introduction, beside a role, and beside a phone number. */
const NAMES = [
  String.raw`(?:[Кк]онтактна особа|[Кк]онтактное лицо|[Кк]онтакт(?:и|ы)?|[Cc]ontact(?: person)?)\s?[:-]\s?${NAME}`,
  String.raw`(?:[Мм]ене звати|[Мм]еня зовут|[Mm]y name is|[Ii]'m|[Aa]sk for|[Cc]all|[Пп]итайте|[Сс]прашивать) ${NAME}`,
  String.raw`(?:[Тт]елефонуйте|[Дд]звоніть|[Зз]воните|[Пп]ишіть|[Пп]ишите|[Тт]ел\.?)[,:]? (?:пані |пан )?${NAME}`,
  String.raw`(?<!\p{L})${ROLE}[,:]? (?:- )?(?:пані |пан )?${NAME}`,
  String.raw`(?:^|[.!\n] ?)${NAME},? ${ROLE}(?![\p{L}])`,
  String.raw`☎[ ,]{0,2}[(-]?\s?${NAME}`,
  String.raw`(?:^|[.,:!\n] ?)${NAME}[ ,:-]{0,3}☎`,
].map((source) => compilePattern(source));

/** Capitalized words that appear in the same positions but are not names. */
const NO_NAMES = compilePattern(
  String.raw`^(?:Тел|Телефон|Дзвоніть|Звоните|Телефонуйте|Пишіть|Пишите|Viber|Вайбер|Telegram|Телеграм|WhatsApp|Phone|Call|Ціна|Цена|Price|Без|Торг|Київ|Киев|Львів|Львов|Одеса|Одесса|Any|The|This|Only|Прошу|Для|Показ|For|Deposit|Комісія|Комиссия|Агент|Власник|Хозяин|Us|Now|Today|Me)(?!\p{L})`,
);

/**
 * Reads the name of the person who offers the property.
 * @param masked The cleaned text, with ☎ in place of each phone number.
 */
export function readContactName(masked: string): string | null {
  const names = NAMES.map((pattern) => pattern.exec(masked)?.[1]);
  return names.find((name) => name !== undefined && !NO_NAMES.test(name)) ?? null;
}
