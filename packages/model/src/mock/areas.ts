import { captured, rule } from './patterns.ts';
import type { PropertyType } from './types.ts';

/** Areas in square metres. */
export type Areas = {
  total: number | null;
  living: number | null;
  kitchen: number | null;
};

const NUMBER = String.raw`(\d{1,6}(?:[.,]\d{1,2})?)`;
const UNIT = String.raw`(?:кв\.? ?м(?:етр\p{L}*)?|кв\.? ?m|м\.? ?кв|квадрат\p{L}*|кв(?!\p{L})|м ?2|m ?2|sq\.? ?m(?:et(?:er|re)s?|trs?)?|sqm|square met(?:er|re)s?|метр(?:ів|ов|а)? кв\p{L}*)(?![\p{L}\d])`;
/** A bare "м" is an area only next to a word that says so: "200 м до метро" is a way to walk. */
const LOOSE_UNIT = String.raw`(?: ?(?:${UNIT}|м(?:етр\p{L}*)?|m)(?!\p{L}))?`;
const GAP = String.raw`[ :=~-]{0,3}(?:площа |площадь |площею |площадью |area |is |of |у |в |- |близько |около |about ){0,2}[ :=~-]{0,2}`;

const TRIPLE = rule(
  String.raw`(?<![\d/.,])${NUMBER} ?м?2? ?[/\\|] ?${NUMBER} ?м?2? ?[/\\|] ?${NUMBER}(?![\d/])`,
  'gu',
);

const labelled = (words: string): RegExp =>
  rule(String.raw`(?<!\p{L})(?:${words})${GAP}${NUMBER}${LOOSE_UNIT}(?! ?(?:\$|грн|%|[\d/]))`);

const LABELS: Record<keyof Areas, RegExp> = {
  total: labelled(
    String.raw`загальн\p{L}*|заг\.?|общ\p{L}*|об\.|площ\p{L}*|метраж\p{L}*|total(?: area)?|area|s(?= ?=)|пл\.?`,
  ),
  living: labelled(String.raw`житлов\p{L}*|жил\p{L}*|living(?: area| space)?`),
  kitchen: labelled(
    String.raw`кухн\p{L}*(?:-(?:студ|віт|гост|їдал|стол)\p{L}*)?|kitchen(?:-\p{L}+)?`,
  ),
};

const NUMBER_FIRST: Record<'living' | 'kitchen', RegExp> = {
  living: rule(String.raw`(?<![\d.,])${NUMBER} ?${UNIT} (?:житлов|жил|living)`),
  kitchen: rule(String.raw`(?<![\d.,])${NUMBER}[ -]?${UNIT} (?:кухн|kitchen)(?!\p{L}* \d)`),
};

const MEASURED = rule(String.raw`(?<![\d.,])${NUMBER}[ -]?${UNIT}`, 'gu');
const FEET =
  /(?<![\d.,])(\d{1,2},\d{3}|\d{2,5}) ?-?(?:sq\.? ?f(?:ee|oo)?t|sqft|square f(?:ee|oo)t)/u;
const HUNDREDTHS = rule(
  String.raw`(?<![\d.,])(\d{1,4}(?:[.,]\d{1,2})?) ?-?(?:ти |и )?(?:соток|сотки|сотка|сотку|сот(?!\p{L})|sot(?:ok|k[aiy]s?)(?!\p{L}))`,
);
const HECTARES = rule(
  String.raw`(?<![\d.,])(\d{1,4}(?:[.,]\d{1,4})?) ?(?:га|гектар\p{L}*|hectares?|ha)(?!\p{L})`,
);
const ACRES = rule(String.raw`(?<![\d.,])(\d{1,4}(?:[.,]\d{1,2})?) ?acres?(?!\p{L})`);

const SQUARE_METRES_IN = { foot: 0.092903, hundredth: 100, hectare: 10_000, acre: 4046.86 };

/** Words before a measure that belongs to a part: a room, a balcony, the ground around. */
const OF_A_PART = rule(
  String.raw`(?<!\p{L})(?<!\d[ -]?(?:х )?)(?:кухн|кімнат|комнат|спальн|вітальн|гостин(?!к)|зал|балкон|лоджі|лоджи|терас|террас|хол|кладов|комор|ванн|підвал|подвал|ділянк|участ|kitchen|bedroom|room|living|balcony|terrace|plot|житлов|жил)\p{L}{0,8}[^\d.,;\n]{0,16}$`,
);
/** "48 м." at the end of a clause; "200 м до метро" and "стелі 3 м" are lengths. */
const LOOSELY_MEASURED = rule(
  String.raw`(?<!\d[.,]?)(?<!(?:^|[^\p{L}])(?:до|за|через|в|у|від|от|по|моря|море|метро|metro|зупинка|остановка|beach|sea|park|стелі|потолки|ceilings?|фасад|ширина|довжина) )(\d{2,3}(?:[.,]\d{1,2})?) ?[мm](?= ?[,.;:\n]|$)(?!\.? ?(?:до|від|от|пішки|пешком|to|from|away))`,
  'gu',
);
const PER_UNIT = /(?:за|per|від|от) ?$/u;

const round = (value: number): number => Math.round(value * 100) / 100;

function readTriple(text: string): Areas | null {
  for (const match of text.matchAll(TRIPLE)) {
    const [total, living, kitchen] = [captured(match, 1), captured(match, 2), captured(match, 3)];
    if (total === null || living === null || kitchen === null) continue;
    // Anything else in this shape is a date or a fraction.
    if (total >= 10 && total <= 2_000 && total > living && living > kitchen && kitchen >= 2) {
      return { total, living, kitchen };
    }
  }
  return null;
}

function readMeasured(text: string, pattern = MEASURED): number | null {
  for (const match of text.matchAll(pattern)) {
    const before = text.slice(Math.max(0, match.index - 30), match.index);
    const value = captured(match, 1);
    if (value !== null && value >= 5 && !OF_A_PART.test(before) && !PER_UNIT.test(before)) {
      return value;
    }
  }
  return null;
}

function scaled(match: RegExpMatchArray | null, factor: number): number | null {
  const value = captured(match, 1);
  return value === null ? null : round(value * factor);
}

function readFeet(text: string): number | null {
  const written = text.match(FEET)?.[1];
  if (written === undefined) return null;
  return Math.round(Number(written.replace(',', '')) * SQUARE_METRES_IN.foot * 10) / 10;
}

/** The ground a text offers, in square metres: "6 соток" is 600. Null when none is given. */
export function readLandArea(folded: string): number | null {
  return (
    scaled(folded.match(HUNDREDTHS), SQUARE_METRES_IN.hundredth) ??
    scaled(folded.match(HECTARES), SQUARE_METRES_IN.hectare) ??
    scaled(folded.match(ACRES), SQUARE_METRES_IN.acre) ??
    readMeasured(folded.replace(PLOT_NOUN, ''))
  );
}

const PLOT_NOUN = rule(String.raw`(?:ділянк|участ|plot)\p{L}*`, 'gu');
const ROOM_NOUN = rule(String.raw`(?:кімнат|комнат|room)\p{L}*`, 'gu');

/**
 * The areas of a building, flat or room: the triple "60/40/9", labelled values, then the first
 * measure that belongs to no single room, unless a room is all there is.
 */
export function readAreas(folded: string, type: PropertyType | null): Areas {
  const triple = readTriple(folded);
  if (triple !== null) return triple;
  const first = (...patterns: RegExp[]): number | null =>
    patterns.map((pattern) => captured(folded.match(pattern), 1)).find((value) => value !== null) ??
    null;
  const measured = type === 'room' ? folded.replace(ROOM_NOUN, ' ') : folded;
  return {
    total:
      first(LABELS.total) ??
      readMeasured(measured) ??
      readFeet(folded) ??
      readMeasured(measured, LOOSELY_MEASURED),
    living: first(LABELS.living, NUMBER_FIRST.living),
    kitchen: first(LABELS.kitchen, NUMBER_FIRST.kitchen),
  };
}
