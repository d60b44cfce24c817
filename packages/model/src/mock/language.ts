/** Language of a text. `mixed` if no language has a clear majority. */
export type Language = 'uk' | 'ru' | 'en' | 'mixed';

const MAX_WORDS = 2_000;

/** Common words of one of the two languages, folded. */
const UKRAINIAN = new Set(
  'та є що але або від до після біля поруч здам здаю здається здаємо продаємо квартиру кімната кімнатна поверх ціна площа будинок вулиця район ремонтом меблі власник без комісії телефонуйте можна тільки зараз тепер опалення дуже новобудова балконом міс гривень тварин потрібен машина зупинка хвилин ринок школа садок кухня окрема торг доларів грн'.split(
    ' ',
  ),
);
const RUSSIAN = new Set(
  'и или есть что но от после возле рядом сдам сдаю сдается продаю продается продаем комната комнатная этаж цена площадь дом улица мебель хозяин комиссии звоните можно только сейчас теперь отопление очень новостройка мес гривен животных нужен минут рынок школа отдельная долларов двушка однушка метров остановка все с со также уже нет'.split(
    ' ',
  ),
);
const SHARED = new Set('без район школа торг грн машина до или'.split(' '));

/** Latin words that listings in every language use. */
const NAMES =
  /^(?:wi|fi|wifi|ikea|led|tv|sky|park|smart|house|ok|usd|uah|eur|bosch|lg|samsung|smart-tv|x)$/u;

/** Beginnings of words that identify the language regardless of the ending. */
const RUSSIAN_STEM =
  /^(?:(?:одно|двух|трех|четырех)?комнат|комн$|этаж|сосед|человек|посуточ|сутк|сутки|хозя|собственн|отоплен|кирпич|хорош|больш|месяц|долл|сда[мюе]|продае|ищу$|участ|стоимост|мебел|дорог|раздельн|рядом|возле|снижен|срочно|нов(?:ый|ая|ое|ой|ого)$|чист(?:ый|ая|ое)$|улиц)/u;
const UKRAINIAN_STEM =
  /^(?:поверх|поверс|будин|зда[мює]|продає|подобов|доб[ау]$|власник|опален|меблі|гривень|окрем|затишн|велик|гарн|чудов|терміново|шука|житло|хвилин|вулиц|нов(?:ої|а|е|ого)$|долар|дзвон)/u;

type Vote = 'uk' | 'ru' | 'en' | 'cyrillic' | null;

function classifyWord(word: string): Vote {
  if (/^[a-z]/u.test(word)) return word.length > 1 && !NAMES.test(word) ? 'en' : null;
  if (!/\p{Script=Cyrillic}/u.test(word)) return null;
  if (/[іїєґ]/u.test(word)) return 'uk';
  if (/[ыэъ]/u.test(word)) return 'ru';
  if (SHARED.has(word)) return 'cyrillic';
  if (UKRAINIAN.has(word) && !RUSSIAN.has(word)) return 'uk';
  if (RUSSIAN.has(word) && !UKRAINIAN.has(word)) return 'ru';
  if (RUSSIAN_STEM.test(word)) return 'ru';
  return UKRAINIAN_STEM.test(word) ? 'uk' : 'cyrillic';
}

/** Minimum share of a second language in a mixed text. */
const MIN_MIXED_SHARE = 0.25;

/**
 * Detects the language of a folded text by its letters and common words. A text without letters counts as Ukrainian,
 * the main language of the platform.
 */
export function detectLanguage(folded: string): Language {
  const votes = { uk: 0, ru: 0, en: 0, cyrillic: 0 };
  for (const word of (folded.match(/\p{L}+/gu) ?? []).slice(0, MAX_WORDS)) {
    const vote = classifyWord(word);
    if (vote !== null) votes[vote] += 1;
  }
  const cyrillic = votes.uk + votes.ru + votes.cyrillic;
  const all = cyrillic + votes.en;
  if (all === 0 || votes.en / all <= MIN_MIXED_SHARE) {
    const minor = Math.min(votes.uk, votes.ru);
    if (minor >= 2 && minor / (votes.uk + votes.ru) >= MIN_MIXED_SHARE) return 'mixed';
    return votes.ru > votes.uk ? 'ru' : 'uk';
  }
  return cyrillic / all < MIN_MIXED_SHARE ? 'en' : 'mixed';
}
