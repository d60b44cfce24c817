import { rule, stem } from './patterns.ts';

/** Each feature with the words that tell of it, in the three languages. */
const FEATURES: Record<string, string> = {
  air_conditioning: String.raw`кондиціонер|кондиционер|кондер|air[- ]?con|a/c(?!\p{L})`,
  alarm: String.raw`сигналізаці|сигнализаци|alarm`,
  appliances: String.raw`технік[аоу]|(?:побутов|бытов)\p{L}* техн|техник[аоу]|пралк|пральн|стиральн|стиралк|холодильник|посудомий|посудомоеч|washing machine|washer|dishwasher|fridge|appliances`,
  autonomous_heating: String.raw`автоном\p{L}*|індивідуальн\p{L}* опал|індивід\p{L}*\.? опал|индивидуальн\p{L}* отопл|двоконтурн|двухконтурн|газов\p{L}+ кот[ел]|autonomous heating|own boiler|gas boiler|individual heating`,
  balcony: String.raw`балкон|лоджі|лоджи|balcon|loggia`,
  exchange: String.raw`обмін|обмен|exchange`,
  fireplace: String.raw`камін(?!н)|камин|fireplace`,
  from_owner: String.raw`від власни|власник(?!\p{L}* агент)|від хазяї|хазяїн|хозяин|хозяйка|от хозяина|от собственника|собственник|без посередник|без посредник|by owner|from (?:the )?owner|direct from`,
  furnished: String.raw`мебл(?:ьован|і|ями|ів)|умебльован|мебель|мебл|меблирован|мебелью|мебели|furnish|furniture`,
  garage: String.raw`гараж|garage`,
  garden: String.raw`сад(?:ок|у|ом|иб|ов)?(?!\p{L})|garden|подвіря|двор(?:ик)?(?!\p{L})`,
  generator: String.raw`генератор|інвертор|инвертор|безперебійн|бесперебойн|generator|inverter|backup power|ecoflow|екофлоу|сонячн\p{L}+ панел|solar`,
  elevator: String.raw`ліфт|лифт|elevator|lift(?!\p{L})`,
  near_metro: String.raw`метро|metro|subway|ст\. ?м\.`,
  negotiable: String.raw`торг|negotiab`,
  new_building: String.raw`новобудов|новобуд|новостро[йі]|новострой|новий будин|новий жк|новом доме|новому будин|новый дом|жк(?!\p{L})|new build|newly built|new development|new residential`,
  no_commission: String.raw`без комісі|без комисси|комісія 0|комиссия 0|0 ?% комі|0 ?% коми|без %|no commission|no (?:agency |agent )?fees?|zero commission|commission[- ]free`,
  parking: String.raw`паркінг|паркинг|парковк|паркомісц|паркуван|машиномісц|машиномест|parking|car space`,
  pool: String.raw`басейн|бассейн|pool`,
  renovated: String.raw`ремонт|євроремонт|евроремонт|відремонтован|отремонтирован|renovated|refurbished|renovation`,
  sauna: String.raw`саун|баня|баню|лазня|sauna`,
  sea_view: String.raw`вид(?:ом)? на море|видом моря|краєвид на море|sea ?view|ocean view|view of the sea`,
  security: String.raw`охорон|охран|консьєрж|консьерж|відеоспостереж|видеонаблюд|закрит\p{L}+ територ|закрыт\p{L}+ террит|security|concierge|gated`,
  shelter: String.raw`укритт|укрыти|бомбосхов|бомбоубеж|shelter`,
  storage: String.raw`комор[аиу]|кладов|storage room|pantry`,
  terrace: String.raw`терас|террас|terrace|patio`,
  utilities_included: String.raw`комун\p{L}* (?:вже |уже )?(?:включ|входят|входить|в ціні)|коммун\p{L}* (?:уже )?(?:включ|входят|в цен)|все включено|всё включено|utilities included|bills included|utilities incl|all inclusive`,
  wifi: String.raw`wi-? ?fi|вай-? ?фай|інтернет|интернет|internet`,
};

/** A denial right before the word ("без балкона") or right after it ("ліфта немає"). */
const DENIED_BEFORE = rule(
  String.raw`(?:^|[^\p{L}])(?:без|крім|кроме|except|немає|нема|нет|no|not|without|не|ні|ни|un|потребує|требует|потрібен|нужен|під|под|needs?|requires?)(?: \p{L}+(?:ого|ої|ого|ой|а|у|ий|ый|ие|я|s|ic))? $`,
);
const DENIED_AFTER = rule(
  String.raw`^\p{L}* (?:немає|нема|нет|відсутн|отсутств|не працює|не пропон|не предлаг|не розгляд|не рассматр|не работает|поки немає)`,
);

const PETS = String.raw`тварин\p{L}*|животн\p{L}*|pets?|котик\p{L}*|котом|кішк\p{L}*|кошк\p{L}*|кот[аи]м[иі]|собак\p{L}*|песик\p{L}*|улюбленц\p{L}*|питомц\p{L}*|хвостик\p{L}*|dogs?|cats?`;
const NO_PETS = rule(
  String.raw`(?:без|no|не (?:з|с|для)|тільки без|крім|кроме|not allowed)[^.;\n]{0,24}(?<!\p{L})(?:${PETS})(?!\p{L})|(?:${PETS})(?!\p{L})[^.,;\n]{0,16}(?<!\p{L})(?:не(?!\p{L})|ні|нельзя|заборон|запрещ|not|нет)`,
);
const PETS_ALLOWED = rule(
  String.raw`(?:можна|можно|дозвол\p{L}*|разреш\p{L}*|розглян\p{L}*|раді|рады|не проти|не против)[^.;\n]{0,24}(?<!\p{L})(?:${PETS})(?!\p{L})|(?<!\p{L})(?:${PETS})(?!\p{L})[ -]?[^.,;\n]{0,12}(?<!\p{L})(?:ok|okay|allowed|welcome|friendly|можна|можно|дозвол|вітаються|разреш|considered|fine)`,
);
const NEEDS_RENOVATION = rule(
  String.raw`(?:без|потребує|потребують|требует|під|под|нужен|потрібен|needs?|requires?)(?: \p{L}+){0,2} (?:ремонт|renovat|refurb|work)|чорнов\p{L}+ роб|строительн\p{L}+ состоян|без оздоблення|після будівельників|от строителей|від будівельників`,
);
const UNFURNISHED = rule(
  String.raw`unfurnished|немебльован|не мебльован|порожн\p{L}+ квартир|без мебл|без мебел`,
);

const PATTERNS = Object.entries(FEATURES).map(([slug, words]) => ({
  slug,
  pattern: stem(words, 'gu'),
}));

/** Slugs whose own words hold the denial, so that "без" before them denies nothing. */
const DENIALS_THEMSELVES = new Set(['no_commission', 'from_owner']);

/** Every slug `features` can hold, sorted. */
export const FEATURE_SLUGS: readonly string[] = [
  ...Object.keys(FEATURES),
  'needs_renovation',
  'no_pets',
  'pets_allowed',
].toSorted();

function isAffirmed(text: string, { slug, pattern }: (typeof PATTERNS)[number]): boolean {
  for (const match of text.matchAll(pattern)) {
    if (DENIALS_THEMSELVES.has(slug)) return true;
    const end = match.index + match[0].length;
    const before = text.slice(Math.max(0, match.index - 28), match.index);
    if (!DENIED_BEFORE.test(before) && !DENIED_AFTER.test(text.slice(end, end + 32))) return true;
  }
  return false;
}

/** The features a folded text affirms, sorted. What it denies ("без ремонту") is not among them. */
export function readFeatures(folded: string): string[] {
  const found = PATTERNS.filter((feature) => isAffirmed(folded, feature)).map(({ slug }) => slug);
  const features = new Set(found);
  if (NO_PETS.test(folded)) features.add('no_pets');
  else if (PETS_ALLOWED.test(folded)) features.add('pets_allowed');
  if (NEEDS_RENOVATION.test(folded)) features.add('needs_renovation');
  if (UNFURNISHED.test(folded)) features.delete('furnished');
  return [...features].toSorted();
}
