import { rule } from './patterns.ts';
const NAME = String.raw`\p{Lu}[\p{Ll}'-]{2,20}(?: \p{Lu}[\p{Ll}'-]{2,20})?`;

/** Ways of giving one's name, each capturing it; the cleaned text with its case is matched. */
const INTRODUCTIONS = [
  String.raw`(?:[Кк]онтактна особа|[Кк]онтактное лицо|[Кк]онтакт(?:и|ы)?|[Cc]ontact(?: person)?)\s?[:-]\s?`,
  String.raw`(?:[Мм]ене звати|[Мм]еня зовут|[Mm]y name is|[Ii]'m|[Aa]sk for|[Cc]ontact|[Cc]all|[Тт]ext|[Mm]essage|[Пп]итайте|[Сс]прашивать|[Зз]вертайтес[ья] до|[Пп]итати) `,
  String.raw`(?:[Вв]ласник|[Вв]ласниця|[Хх]озяин|[Хх]озяйка|[Хх]азяйка|[Гг]осподиня|[Рр]і[еє]лтор(?:ка)?|[Рр]и[еэ]лтор|[Аа]гент|[Oo]wner|[Ll]andlord|[Aa]gent)[,:]? (?:- )?(?:пані |пан )?`,
  String.raw`(?:[Тт]елефонуйте|[Дд]звоніть|[Зз]воните|[Пп]ишіть|[Пп]ишите|[Тт]ел\.?|[Зз]вонить)[,:]? (?:пані |пан )?`,
  String.raw`☎[ ,]{0,2}[(-]?\s?`,
].map((lead) => rule(`${lead}(${NAME})(?![\\p{L}])`));

/** "Владимир, хозяин": the part someone plays may follow the name. */
const NAME_AND_PART = rule(
  `(?:^|[.!\\n] ?)(${NAME}),? (?:власник|власниця|хозяин|хозяйка|рієлтор|риелтор|агент|owner|agent)(?![\\p{L}])`,
);
/** A name may also stand before the number: "Олена ☎". */
const BEFORE_PHONE = rule(`(?:^|[.,:!\\n] ?)(${NAME})[ ,:-]{0,3}☎`);

/** Words that are written with a capital in these places and are nobody's name. */
const NO_NAMES = rule(
  String.raw`^(?:Тел|Телефон|Дзвоніть|Звоните|Телефонуйте|Пишіть|Пишите|Viber|Вайбер|Telegram|Телеграм|WhatsApp|Phone|Call|Ціна|Цена|Price|Без|Торг|Київ|Киев|Львів|Львов|Одеса|Одесса|Any|The|This|Only|Прошу|Для|Показ|For|Deposit|Комісія|Комиссия|Агент|Власник|Хозяин|Us|Now|Today|Me)(?!\p{L})`,
);

/**
 * The first name of whoever offers the property, or null.
 *
 * @param masked The cleaned text, with ☎ in place of each phone number.
 */
export function readContactName(masked: string): string | null {
  for (const pattern of [...INTRODUCTIONS, NAME_AND_PART, BEFORE_PHONE]) {
    const name = pattern.exec(masked)?.[1];
    if (name !== undefined && !NO_NAMES.test(name)) return name;
  }
  return null;
}
