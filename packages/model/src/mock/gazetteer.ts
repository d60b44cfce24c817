import { TOWNS } from './towns.ts';

/**
 * Places of Ukraine as listings write them, in folded text (lower case, no apostrophes). Every
 * pattern covers the case endings and the spellings of the three languages, common typos included.
 */

/** A city: its canonical name (Ukrainian, nominative) and the pattern of its written forms. */
export type City = readonly [name: string, forms: string];

const LARGER_CITIES: readonly City[] = [
  ['Київ', String.raw`ки[їіе]в[іуа]?|кив|києв(?:а|у|і|ом)?|киев(?:а|у|е|ом)?|kyiv|kiev|kyjiv`],
  ['Львів', String.raw`льв[іи]в|львов\p{L}{0,2}|lviv|lvov|lwow|lwów`],
  ['Одеса', String.raw`одес+[аиіуы]|одесс?е|одесою|одессой|odess?a`],
  ['Харків', String.raw`харк[іи]в|харков[іуае]?|харькове?а?у?|kharkiv|kharkov`],
  ['Дніпро', String.raw`дніпр[оаіу]|днепре?|днепропетровске?|dnipro|dnepr`],
  ['Запоріжжя', String.raw`запоріжж[яію]|запорожь[ея]|zaporizh+ia|zaporizhzhya`],
  ['Вінниця', String.raw`вінниц[яіюи]|винниц[аеуы]|vinn?ytsia|vinnitsa`],
  [
    'Івано-Франківськ',
    String.raw`івано-франківськ\p{L}{0,2}|ивано-франковске?а?|франківськ[уаі]?|ivano-frankivsk|франик[уа]?`,
  ],
  ['Тернопіль', String.raw`тернопіл[ья]ю?|тернопол[іья]|тернопол[ьея]|ternopil`],
  ['Чернівці', String.raw`чернівц(?:і|ях|ів|ям)|черновц(?:ы|ах)|chernivtsi`],
  ['Ужгород', String.raw`ужгород[уіае]?|uzh+orod|uzhgorod`],
  ['Луцьк', String.raw`луцьк[уаі]?|луцке?а?|lutsk`],
  ['Рівне', String.raw`рівн(?:е|ому)|(?<=(?:г\. ?|город |в |во ))ровно|rivne|rovno`],
  [
    'Хмельницький',
    String.raw`хмельницьк(?:ий|ому)|(?<=(?:г\. ?|город |в ))хмельницк(?:ий|ом)|khmelnytskyi`,
  ],
  ['Житомир', String.raw`житомир[іуае]?|zhytomyr`],
  ['Черкаси', String.raw`черкас+[иы]|черкас+ах|cherkasy`],
  ['Чернігів', String.raw`черніг[іо]в[іа]?|чернигове?а?|chernihiv`],
  ['Полтава', String.raw`полтав[аіиуеы]|poltava`],
  [
    'Суми',
    String.raw`(?<=(?:м\. ?|г\. ?|місто |город |у |в ))(?:суми|сумах|сумы)|(?<=(?:^|[,.\n] ?))(?:суми|сумы)(?=[,.\n]|$)|(?:суми|сумы)(?=, ?(?:центр|вул|ул|р-н|район|просп|пр-т))|sumy`,
  ],
  [
    'Кропивницький',
    String.raw`кропивницьк(?:ий|ому)|кропивницк(?:ий|ом)|кіровоград\p{L}?|kropyvnytskyi`,
  ],
  ['Миколаїв', String.raw`миколаїв|миколаєв[іуа]|николаеве?а?|mykolaiv|nikolaev`],
  ['Херсон', String.raw`херсон[іае]?|kherson`],
  ['Кривий Ріг', String.raw`крив(?:ий ріг|ому розі)|крив(?:ой рог|ом роге)|kryvyi rih`],
  [
    'Біла Церква',
    String.raw`біл(?:а церква|ій церкві|у церкву)|бел(?:ая церковь|ой церкви)|bila tserkva`,
  ],
  ['Бровари', String.raw`бровар(?:и|ах|ы)|brovary`],
  ['Ірпінь', String.raw`ірп(?:інь|ені|еня)|ирпен[ьея]|irpin`],
  ['Буча', String.raw`буч[аіуи]|буче|bucha`],
  ['Вишневе', String.raw`(?<=(?:м\. ?|г\. ?|місто |город |у |в ))вишнев(?:е|ому|ое|ом)|vyshneve`],
  ['Бориспіль', String.raw`борисп(?:іль|олі|оль|оле)|boryspil`],
  ['Вишгород', String.raw`вишгород[уіае]?|вышгороде?а?|vyshhorod`],
  [
    'Чорноморськ',
    String.raw`чорноморськ[уаі]?|черноморске?|іллічівськ\p{L}?|ильичевске?|chornomorsk`,
  ],
  ['Винники', String.raw`винник(?:и|ах)|vynnyky`],
  ['Брюховичі', String.raw`брюхович(?:і|ах|и)|briukhovychi`],
  ['Трускавець', String.raw`труска[ве]ц[ьяіею]|трускавц[іея]|truskavets`],
  ['Мукачево', String.raw`мукачев[оеіа]|мукачеве|mukachevo`],
  ['Буковель', String.raw`буковел[ьіея]|bukovel`],
  ['Дрогобич', String.raw`дрогобич[іуа]?|дрогобыче?|drohobych`],
  ['Стрий', String.raw`(?<=(?:м\. ?|г\. ?|місто |город ))(?:стрий|стрию|стрый|стрые)|stryi`],
  [
    "Кам'янець-Подільський",
    String.raw`камян(?:ець|ці)-поділь\p{L}+|каменец-подольск\p{L}+|каменце-подольск\p{L}+`,
  ],
  ['Обухів', String.raw`обух[іо]в[іа]?|обухове?|obukhiv`],
  ['Васильків', String.raw`васильк[іо]в[іа]?|васильков[еа]?|vasylkiv`],
  ['Боярка', String.raw`боярк[аиуе]|боярці|boiarka|boyarka`],
  ['Умань', String.raw`уман[ьіи]|uman`],
  ['Коломия', String.raw`коломи[яїює]|kolomyia`],
  ['Калуш', String.raw`калуш[іуа]?|kalush`],
  ['Ковель', String.raw`ковел[ьяіе]|kovel`],
  ['Самбір', String.raw`самб(?:ір|орі|ора|ор)|sambir`],
  ["Кам'янське", String.raw`камянськ(?:е|ому)|каменск(?:ое|ом)|kamianske`],
  ['Павлоград', String.raw`павлоград[іуае]?|pavlohrad`],
  ['Нікополь', String.raw`н[іи]копол[ьіяюе]|nikopol`],
  ['Маріуполь', String.raw`мар[іи]упол[ьіяюе]|mariupol`],
  ['Краматорськ', String.raw`краматорськ[уаі]?|краматорске?|kramatorsk`],
  ['Яремче', String.raw`яремч[еіа]|yaremche`],
  [
    'Південне',
    String.raw`південн(?:е|ому)(?= ?,)|(?<=(?:в|у|м\.|г\.|місті|городе) ?)южн(?:ый|ом|ому|е)(?= ?(?:[.,;:()\n]|$))|yuzhne|pivdenne`,
  ],
  ['Кременчук', String.raw`кременчу[кц][уаіи]?|кременчуге?|kremenchuk`],
];

/** Every city, town and suburb that is known by name alone. */
export const CITIES: readonly City[] = [...LARGER_CITIES, ...TOWNS];

/** A part of a city: canonical name, written forms, and the city when only one has such a part. */
export type District = readonly [name: string, forms: string, city: string | null];

const ADJECTIVE = String.raw`(?:ий|ому|ого|ім|ом|ый|ой|yi|iy|y|yy)?`;
const RAION = String.raw`(?:р-н\p{L}*|район\p{L}*|district|raion)`;

/** Administrative districts need the word "район": streets and squares bear the same names. */
const raion = (roots: string): string =>
  `(?:${roots})${ADJECTIVE} ${RAION}|${RAION} (?:${roots})${ADJECTIVE}`;

/** Quarters of cities, and administrative districts. */
export const DISTRICTS: readonly District[] = [
  ['Сихів', String.raw`сих[іо]в[іуае]?|сыхове?|сихивськ\p{L}+|sykhiv`, 'Львів'],
  ['Левандівка', String.raw`левандів[кц][аиуі]|левандовк[аиуе]|levandivka`, 'Львів'],
  ['Новий Львів', String.raw`нов(?:ий|ому) льв\p{L}+`, 'Львів'],
  ['Майорівка', String.raw`майорів[кц][аиуі]|майоровк[аиуе]`, 'Львів'],
  ['Рясне', String.raw`рясн(?:е|ому|ого)|рясно`, 'Львів'],
  ['Франківський', raion('франківськ|франковск|frankivsk'), 'Львів'],
  ['Личаківський', raion('личаківськ|лычаковск|lychakiv|lychakivsk'), 'Львів'],
  ['Галицький', raion('галицьк|галицк|halytsk'), 'Львів'],
  ['Сихівський', raion('сихівськ|сыховск|sykhivsk'), 'Львів'],
  ['Залізничний', raion('залізничн|зализнычн|железнодорожн|zaliznychn'), 'Львів'],
  [
    'Оболонь',
    String.raw`оболон[ьіиейю]{1,2}|obolon|(?:метро|ст\.? ?м\.?|м\.) ?["«“„]?геро(?:їв|ев) дн[іе]пр\p{L}+`,
    'Київ',
  ],
  ['Поділ', String.raw`поділ|подолі|подоле?|podil`, 'Київ'],
  ['Позняки', String.raw`позняк(?:и|ах|ів)|pozn[iy]aky|poznyaki`, 'Київ'],
  ['Дарниця', String.raw`дарниц[яіюиаеу]|darnytsia`, 'Київ'],
  ['Осокорки', String.raw`осокорк(?:и|ах|ів)|osokorky`, 'Київ'],
  ['Троєщина', String.raw`троєщин[аіиу]|троещин[аеы]|troieshchyna|troyeshchina`, 'Київ'],
  ['Виноградар', String.raw`виноградар[іяюье]?`, 'Київ'],
  ['Теремки', String.raw`теремк(?:и|ах)|teremky`, 'Київ'],
  ["Лук'янівка", String.raw`лукянів[кц][аиуі]|лукьяновк[аиуе]|lukianivka`, 'Київ'],
  ['Нивки', String.raw`нивк(?:и|ах)|nyvky`, 'Київ'],
  ['Лівобережна', String.raw`лівобережн[аіу]\p{L}?|левобережн(?:ая|ой)`, 'Київ'],
  ['Голосіївський', raion('голосіївськ|голосеевск|holosiiv|holosiivsk|goloseevsk'), 'Київ'],
  ['Печерський', `${raion('печерськ|печерск|pechersk')}|печерськ[уаі]?|печерске?|pechersk`, 'Київ'],
  ['Дарницький', raion('дарницьк|дарницк|darnyts|darnytsk'), 'Київ'],
  ['Деснянський', raion('деснянськ|деснянск|desnians'), 'Київ'],
  ['Дніпровський', raion('дніпровськ|днепровск|dniprovsk'), 'Київ'],
  ['Оболонський', raion('оболонськ|оболонск|obolonsk'), 'Київ'],
  ['Подільський', raion('подільськ|подольск|podilsk'), 'Київ'],
  ['Святошинський', raion('святошинськ|святошинск|sviatoshynsk'), 'Київ'],
  ["Солом'янський", raion('соломянськ|соломенск|solomiansk'), 'Київ'],
  ["Солом'янка", String.raw`соломян[кц][аиуі]|соломенк[аиуе]|solomianka`, 'Київ'],
  ['Аркадія', String.raw`аркаді[їяю]|аркадии|аркадия|аркадию|arcadia|arkadia`, 'Одеса'],
  ['Черемушки', String.raw`черемушк(?:и|ах)|cheremushky`, 'Одеса'],
  ['Молдаванка', String.raw`молдаван[кц][аиуіе]|moldavanka`, 'Одеса'],
  ['Таїрова', String.raw`таїров[аеоі]|таирово?[аеу]?|tairova?`, 'Одеса'],
  ['Пересип', String.raw`пересип|пересипі|пересыпь?|peresyp`, 'Одеса'],
  [
    'Великий Фонтан',
    String.raw`велик(?:ий|ого|ому) фонтан\p{L}?|больш(?:ой|ого|ом) фонтан\p{L}?|фонтан[аеу]?(?= \d|[,.])|(?:big|great) fontan`,
    'Одеса',
  ],
  ['Ланжерон', String.raw`ланжерон[уіае]?|lanzheron|langeron`, 'Одеса'],
  ['Приморський', raion('приморськ|приморск|prymorsk|primorsk'), 'Одеса'],
  ['Київський', raion('київськ|киевск|kyivsk'), null],
  ['Малиновський', raion('малиновськ|малиновск'), 'Одеса'],
  ['Суворовський', raion('суворовськ|суворовск'), 'Одеса'],
  ['Салтівка', String.raw`салтів[кц][аиуі]|салтовк[аиуе]|saltivka|saltovka`, 'Харків'],
  ['Холодна Гора', String.raw`холодн(?:а гора|ій горі|ая гора|ой горе)`, 'Харків'],
  ['Олексіївка', String.raw`олексіївк[аиуі]|алексеевк[аиуе]`, 'Харків'],
  ['Перемога', String.raw`ж/?м "?(?:перемога|победа)(?:-\d)?|победа-\d|перемога-\d`, 'Дніпро'],
  ['Тополя', String.raw`ж/?м "?топол[яьіе](?:-\d)?|тополя-\d|тополь-\d`, 'Дніпро'],
  ['Вишенька', String.raw`вишень[кц][аиуі]|вишенк[аие]`, 'Вінниця'],
  ['Пасічна', String.raw`(?<=(?:на |район ))пасічн(?:а|ій|у)`, 'Івано-Франківськ'],
  ['Шевченківський', raion('шевченківськ|шевченковск|shevchenkivsk'), null],
  [
    'Центр',
    String.raw`(?:в|у) (?:само(?:му|м) )?(?:історичн\p{L}+ |историческ\p{L}+ |тих\p{L}+ )?центр[іуеа]|(?<!(?:торговий|торговый|бізнес|бизнес|діловий|деловой|до|медичний|медицинский|сервісний)[ -])центр(?=[,.;\n]|$)|центр міста|центр города|(?:in the |the )?(?:historic(?:al)? )?(?:city )?cent(?:re|er)(?! of gravity)|downtown|середмістя|середмісті`,
    null,
  ],
];
