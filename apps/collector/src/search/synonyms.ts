/**
 * Words of the three languages with one meaning, one meaning a line. Other forms of a word are found by its stem. `_`
 * joins the words of a phrase, and `@` begins the term of a fact. Words before `>` find those after it, but not the
 * other way round. A word after `~` is looked up, but not searched for, because other words share its stem. A listing with
 * a phrase after `!` lacks what the other words mean.
 */
export const SYNONYM_GROUPS: readonly string[] = `
квартира апартаменти апартаменты flat apartment condo apt @apartment
житло жилье оселя помешкання нерухомість недвижимость home accommodation lodging property > квартира flat apartment будинок дом house кімната комната room @apartment @house @room
будинок дім дом хата котедж коттедж таунхаус особняк вілла вилла дача house cottage townhouse villa @house
хатинка домик хатина будиночок шале cabin chalet lodge > будинок дом хата котедж коттедж cottage cabin @house
кімната кімн комната комн room @room
койко ліжко койка bed dorm > ліжкомісце ліжко_місце койко_место хостел гуртожиток общежитие dormitory hostel
гуртожиток общежитие общага dormitory
студія студия studio
лофт loft
смарт smart
гостинка малосімейка малосемейка гостинного
ділянка участок земля земельна земельный plot land lot acreage @land
забудова застройка будівництво строительство побудувати построить строить build > ділянка участок забудова застройка будівництво строительство building_plot
офіс офис office
бц бізнес_центр бизнес_центр business_center business_centre
гараж гаражний garage
паркінг паркинг паркомісце паркоместо парковочный машиномісце машиноместо парковка стоянка автостоянка parking
машина авто автомобіль автомобиль car > паркінг паркинг паркомісце паркоместо машиномісце машиноместо парковка стоянка parking гараж
склад складське складское ангар warehouse storage
зберігати зберігання хранить хранение store_things keep_things > склад складське складское ангар warehouse storage підвал подвал комора кладовка гараж
приміщення помещение premises @commercial
комерція коммерция комерційна коммерческая нежитлове нежилое commercial @commercial
заклад заведение venue > приміщення помещение premises @commercial
відкрити открыть відкриття > приміщення помещение premises магазин офіс офис @commercial
вільного_призначення свободного_назначения any_purpose any_business multi_purpose
магазин крамниця бутік бутик торгове торгівля торговое торговля shop store retail
вітрина витрина витринный фасадний фасадный storefront display_window > фасад
прохідний проходимый проходной людний людный busy_street foot_traffic > фасадний фасадный вітрина витрина центр перша_лінія первая_линия
без_господарів без_хозяев without_owner
кіоск киоск маф павільйон павильон ларьок ларек контейнер kiosk
кавярня кафе кофейня cafe coffee
піцерія пиццерия суші суши фастфуд шаурма fast_food pizza takeaway coffee_to_go > кафе cafe ресторан кухня kitchen магазин shop @commercial
шоурум showroom фотостудія фотостудия ательє ателье квіти цветы florist ломбард лабораторія лаборатория нотаріус нотариус адвокат юрист lawyer notary > приміщення помещение магазин shop офіс office @commercial
ресторан бар їдальня столовая restaurant bar
азс заправка gas_station petrol_station
майданчик площадка open_area
пекарня кондитерська кондитерская bakery
клуб club дискотека
таунхаус townhouse
пентхаус penthouse
дача дачний дачный садиба усадьба dacha
оренда аренда здам сдам здаю сдаю здаємо сдаем здається сдается здача сдача зняти снять зніму сниму винайняти орендувати арендовать найм наем rent renting rental lease @rent
~let > оренда аренда здам сдам здаю сдаю rent rental lease to_let @rent
продаж продажа продам продаю продається продается продаємо продаем куплю купить купити купівля покупка придбати приобрести sale ~sell buy purchase @sale
подобово посуточно подобова посуточная добу сутки переночувати переночевать ночівля ночлег ніч ночь вихідні выходные daily night nightly overnight weekend short_stay @daily_rent
погодинно почасово почасовая погодинна hourly by_the_hour
короткостроково краткосрочно тимчасово временно короткий_термін короткий_срок short_term temporary
довгостроково долгосрочно тривалий длительный long_term
відрядження командировка командировочні командировочный відряджений business_trip business_travel business_travellers work_trip > подобово посуточно @daily_rent
кілька_місяців декілька_місяців несколько_месяцев few_months > суборенда субаренда sublet subletting short_term короткий_термін
помісячно помесячно щомісячно monthly
суборенда субаренда sublet subletting sublease
викуп выкуп rent_to_own rent_to_buy lease_to_own buy_out
ніхто_не_жив никто_не_жил never_lived first_tenant first_time перше_заселення первый_раз
новобудова новостройка новобуд новострой новострою новий_будинок новий_дім новый_дом new_building new_build new_house newly_built > забудовник застройщик developer здача_дому сдача_дома здача_будинку жк перше_заселення first_tenant
забудовник застройщик developer
житловий_комплекс жилой_комплекс residential_complex > жк
переуступка уступка переступка cession assignment
цегла цегляний кирпич кирпичный brick
панель панельний панельный panel
моноліт монолітний монолит монолитный каркас monolith monolithic
газоблок газобетон піноблок пеноблок aerated_concrete
деревяний деревянный зруб сруб ~wooden timber log_house
хрущовка хрущевка хрущ khrushchev
сталінка сталинка stalinka stalin
чешка чеська чешская czech
старовинний старинный історичний исторический дореволюційний дореволюционный австрійський австрийский historic historical > tenement довоєнний довоенный
старий старенький ветхий старый old
новий новый нова новая new
ремонт євроремонт евроремонт renovation renovated refurbished !без_ремонту !без_ремонта
свіжий_ремонт новий_ремонт свежий_ремонт новый_ремонт після_ремонту после_ремонта freshly_renovated newly_renovated after_renovation євроремонт евроремонт
без_ремонту без_ремонта після_будівельників после_строителей чорнові черновой чорновий стяжка голі_стіни голые_стены черные_стены чорні_стіни shell bare_walls unfinished white_box white_variant белый_вариант білий_варіант
недобудова недострой недостроенный незавершений недобудований unfinished_house коробка
під_знос под_снос знос снос demolition teardown ruin
потребує_ремонту требует_ремонта під_ремонт под_ремонт needs_renovation fixer > старий_ремонт old_repair без_ремонту без_ремонта під_знос под_снос
стильний дизайнерський дизайнерский дизайн designer сучасний современный modern
люкс luxury luxurious розкішний роскошный преміум премиум prestige престижний престижный елітний элитный elite
просторий просторный великий большой spacious large big
затишний уютный cozy cosy
маленький невеликий небольшой компактний компактный small tiny compact
світлий светлый сонячний солнечный bright sunny
теплий теплый утеплений утепленный warm insulated
тихий тихо спокійний спокойный тиша тишина quiet calm peaceful silence > у_двір во_двор у_двор courtyard двір двор не_на_дорогу тихі_сусіди
двір двор двором двору двор подвіря courtyard yard
меблі мебель мебльована меблированная обставлена furniture furnished !без_меблів !без_мебели
без_меблів без_мебели порожня пустая unfurnished
техніка техника побутова_техніка бытовая_техника appliances equipped
холодильник fridge refrigerator
пральна_машина стиральная_машина пральна стиральная стиралка пралка washing_machine laundry
посудомийка посудомийна посудомоечная dishwasher
телевізор телевизор tv television
інтернет интернет internet wifi wi_fi вайфай оптоволокно fibre
віддалено удаленно фріланс remote home_office work_from_home робота_з_дому работать_из_дома > інтернет интернет internet wifi wi_fi starlink оптоволокно кабінет кабинет робоче_місце рабочее_место генератор
робоче_місце рабочее_место workplace workspace desk coworking коворкінг коворкинг open_space
готова_до_проживання готова_к_проживанию заїжджай_і_живи заезжай_и_живи ready_to_live move_in_ready turnkey_apartment > ремонт євроремонт евроремонт меблі мебель техніка заезжай
ключі_сьогодні ключи_сегодня keys_today available_now > ключі ключи keys вільна свободна available
зїхати заїхати заехать заселитися заселиться заселення заселение move_in moving_in > вільна свободна одразу сразу available
кондиціонер кондиционер conditioner conditioning
опалення отопление heating
котел котлом котла індивідуальне_опалення автономне_опалення власне_опалення индивидуальное_отопление автономное_отопление собственное_отопление individual_heating autonomous_heating автономка двоконтурний gas_boiler
бойлер водонагрівач водонагреватель water_heater
тепла_підлога теплый_пол floor_heating heated_floor underfloor_heating
піч пічка пічне печка печное грубка дрова дровами твердопаливний твердотопливный firewood stove
камін камин fireplace
ванна ванная bathtub
душ душова душевая shower
санвузол санвузлом санузел туалет bathroom toilet
кухня kitchen
кухня_вітальня кухня_студія кухня_гостиная кухня_студия open_kitchen kitchen_living
роздільні_кімнати раздельные_комнаты кімнати_окремі комнаты_раздельные кімнати_роздільні окремі_кімнати separate_rooms
гардероб гардеробна гардеробная wardrobe
комора кладовка кладовая pantry storeroom
балкон лоджія лоджия балк balcony loggia
тераса терраса веранда terrace patio veranda porch
вікно вікна окно окна window
високі_стелі высокие_потолки high_ceilings высота_потолков висота_стелі стелі потолки ceiling
окремий_вхід окремим_входом отдельный_вход свій_вхід свой_вход separate_entrance own_entrance
дворівнева двухуровневая два_рівні два_уровня двох_рівнях двух_уровнях два_поверхи two_levels duplex
дах крыша мансарда мансардний мансардный горище attic > @last_floor
останній_поверх последний_этаж без_сусідів_зверху без_соседей_сверху no_neighbours_above > @last_floor
високий_поверх высокий_этаж high_floor high_up > @floor10 @floor11 @floor12 @floor13 @floor14 @floor15 @floor16 @floor17 @floor18 @floor19 @floor20 @floor21 @floor22 @floor23 @floor24 @floor25
малоповерховий малоэтажный low_rise > @floors2 @floors3 @floors4
низький_поверх низкий_этаж невисоко без_сходів без_сходинок без_ступенек no_stairs step_free бабуся бабушка батьки родители мама мами мамы пенсіонер пенсионер літні_люди пожилые elderly parents grandmother > @floor1 ground_floor партер parter ліфт лифт lift elevator
ground_floor партер parter > @floor1
двоповерховий двухэтажный > @floors2
погреб погріб підвал подвал льох цоколь цокольний цокольный basement cellar underground
підземний подземный під_землею underground
поверх этаж floor
центр центральний центральный середмістя centre center downtown
метро metro subway
зупинка остановка транспорт маршрутка трамвай тролейбус троллейбус автобус bus tram trolleybus transport
вокзал станція станция station поїзд поезд train електричка электричка
аеропорт аэропорт airport
кордон граница border
переїзд переезд relocation relocating moving relocates
човен човна лодка катер яхта boat yacht > човен лодка яхта yacht причал marina
оглядова_яма смотровая_яма яма inspection_pit
шосе трасса траса highway motorway
асфальт дорога asphalt road
залізниця железная_дорога залізнична колія колією підїзні_шляхи подъездные_пути ж_д railway railroad
рампа ramp loading_dock
кран_балка кранбалка crane
море морський морской пляж узбережжя побережье берег_моря sea seaside beach coast seafront
перша_лінія первая_линия first_line beachfront
річка река річковий набережна набережная river riverside embankment
вода water > річка река озеро море ставок пруд river lake sea
озеро ставок пруд водойма водоем lake pond
лиман estuary
курорт санаторій санаторий бювет resort spa
риболовля рибалка рыбалка fishing > ставок пруд озеро річка river lake
ліс лес сосни сосны forest ~woods pine
гори гір горы карпати карпаты mountains carpathians
парк сквер park
природа загород за_містом за_городом свіже_повітря свежий_воздух nature countryside suburb передмістя пригород > ліс лес forest річка река river озеро lake село сад дача
село деревня сільський деревенский village rural
вид краєвид панорама панорамний панорамный view
вид_на_воду видом_на_воду view_of_water water_view > вид_на_море видом_на_море вид_моря вид_на_річку вид_на_реку вид_на_озеро sea_view river_view lake_view панорама набережна набережная море річка озеро
вид_на_море видом_на_море вид_моря видно_море sea_view view_of_the_sea
лижі горнолыжный лижний ski буковель bukovel
відпустка отпуск отдых отдыха відпочинок відпочити відпочивати отдохнуть vacation holiday > подобово посуточно база_відпочинку @daily_rent море гори горы річка озеро чан басейн nightly
зима взимку зимой winter
літо лето summer > влітку летом літній летний summer
басейн бассейн swimming_pool
~pool > басейн бассейн
джакузі джакузи jacuzzi hot_tub чан
сауна баня чан лазня sauna bath_house hot_tub
мангал барбекю bbq barbecue grill шашлик шашлык альтанка беседка gazebo
сад садовий садовый фруктові_дерева фруктовые_деревья садівництво садоводство garden orchard
худоба скот кури куры кролі livestock chickens > сарай господарські_будівлі хозпостройки хлів ферма farm
город огород картопля картошка овочі овощи vegetables грядки > ділянка участок сотка соток сад
сарай господарські_будівлі хозпостройки надвірні outbuildings barn shed
паркан забор огорожа fence fenced
колодязь колодец криниця скважина свердловина borehole
каналізація канализация septic септик sewage sewer
без_газу без_газа all_electric електроопалення електро
газ газифікований газифицированный
комунікації коммуникации світло_газ communications > газ світло свет вода електрика
електрика электричество electricity світло свет квт
сонячні_панелі солнечные_панели солнечные_батареи solar
потужність мощность powerful потужний мощный > квт трансформатор 380
укриття укрытие бомбосховище бомбоубежище сховище паркінг_укриття shelter
тривога тревога ховатись прятаться обстріл обстрел safe_during > укриття укрытие бомбосховище shelter
генератор інвертор инвертор зарядна_станція аккумулятор акумулятор generator inverter battery
блекаут відключення отключения світло_є без_світла без_света blackout blackouts power_cuts power_outage outages резервне_живлення резервное_питание backup_power autonomous_power > генератор інвертор инвертор generator inverter battery black_out сонячні_панелі solar starlink
безпека безопасность safe безпечний безопасный охорона охрана охороняється охраняемая security secure guarded консьєрж консьерж concierge закрита_територія закрытая_территория закритий_двір закрытый_двор gated camera surveillance відеоспостереження видеонаблюдение сигналізація сигнализация
сходи лестница stairs
територія территория territory
без_ліфта без_лифта no_lift no_elevator walk_up
ліфт лифт elevator lift !без_ліфта !без_ліфту !без_лифта !ліфта_немає !лифта_нет !no_lift !no_elevator
візочок коляска stroller pram > ліфт лифт пандус elevator lift
інвалід инвалид маломобільний маломобильный візок візку wheelchair disabled доступний пандус > пандус ramp ліфт лифт lift elevator @floor1
без_застави без_залога без_депозиту no_deposit zero_deposit
безкоштовно безкоштовний бесплатно бесплатный free
застава завдаток залог депозит deposit
передоплата наперед вперед предоплата аванс prepayment advance
комунальні коммунальные комуналка коммуналка utilities ~bills
коммунальные_включены комунальні_включено комунальні_включені все_включено utilities_included bills_included all_in all_inclusive все_в_ціні
комунальна_квартира коммунальная_квартира в_коммуналке в_комуналці коммуна communal_flat > комунальна_квартира коммунальной_квартире кухня_общая общая_кухня спільна_кухня кухня_спільна
власник хазяїн господар хазяйка господиня хозяин собственник хозяйка напряму напрямую owner landlord landlady без_комісії без_комиссии без_посередників без_посредников без_рієлторів no_commission no_agents no_agency
без_комісії без_комиссии комісія_0 комиссия_0 no_commission без_посередників без_посредников > власник хозяин собственник owner
ріелтор риелтор рієлтор агентство агент маклер agency realtor agent
комісія комиссия commission
жити_з_господинею жить_с_хозяйкой жить_с_хозяином з_господинею с_хозяйкой live_with_owner підселення подселение shared_flat flatmates flatmate roommate roommates співмешканка сожительница > господиня хозяйка хазяйка підселення подселение flatmates
терміново срочно urgent urgently
торг торгуватися торговаться договірна договорная negotiable bargain bargaining
подешевшати подешевшала подешевела cheaper > знижка скидка знижено снижена дешевше дешевле reduced price_drop price_cut
знижка скидка дешевше дешевле акція акция знижено снижена уценка discount reduced price_drop price_cut
обмін обмен обміняю обменяю поміняти поменять exchange swap
іпотека ипотека єоселя еоселя кредит mortgage loan
розстрочка рассрочка розтермінування installments instalments перший_внесок первый_взнос
сертифікат сертификат євідновлення еВідновлення ваучер voucher certificate
документи документы documents papers
пдв ндс vat безготівковий безналичный юрлицо юрособа legal_entity
готівка наличные cash
крипта криптовалюта crypto bitcoin
власність собственность ownership
звітні отчетные чек квитанція receipt invoice > чек документи документы documents
договір договор contract agreement офіційно официально
прописка реєстрація регистрация registration
інвестиція инвестиция інвестор инвестор вкладення вложение вкласти вложить investor окупність окупаемость дохід доход дохідний доходный investment invest income yield roi орендний_бізнес арендный_бизнес
орендар арендатор квартирант жильці жильцами жильцы мешканці tenant tenants
здана_в_оренду сданная_в_аренду вже_здається already_let already_rented rented_out tenanted > орендар орендарями арендатор tenant tenants орендний_бізнес
бізнес бизнес business
готовий готовый ready
готовий_бізнес готовый_бизнес діючий_бізнес действующий_бизнес going_business going_concern running_business > під_ключ под_ключ обладнання оборудование equipment діючий действующий working
діючий действующий діюча действующая working operating
обладнання оборудование equipment
під_ключ под_ключ turnkey
аптека pharmacy
перукарня парикмахерская барбершоп салон beauty salon hairdresser barber
майстер мастер краса красота манікюр маникюр косметолог масаж массаж beauty master nails > кабінет кабинет салон
стоматолог стоматологія стоматология стоматологічний dental dentist
медичний медицинский клініка клиника medical clinic
кабінет кабинет cabinet
спортзал зал танці танців танцы танцев тренажерний тренажерный фітнес фитнес йога gym fitness yoga
тренінг тренинг курси курсы навчання обучение семінар семинар лекція training classes workshop seminar meeting_room переговорна переговорная
майстерня мастерская сто автосервіс автосервис шиномонтаж автомийка автомойка car_repair car_wash
холодильна_камера холодильна холодильная морозильна cold_room cold_storage refrigerated
готель номери номера гостьовий_будинок гостевой_дом отель гостиница міні_готель мини_отель hotel guesthouse
хостел hostel
база_відпочинку база_отдыха recreation
виноград виноградник vineyard vines
пай рілля пашня чорнозем чернозем сільськогосподарського сельскохозяйственного осг farmland agricultural field @land
поле вирощування вирощувати выращивание выращивать урожай пшениця пшеница wheat grow crops harvest > пай рілля пашня сільськогосподарського сельскохозяйственного га гектар farmland agricultural hectare
ферма фермер фермерство фермерський фермерский зерно farming farm farmer > земля пай рілля пашня farmland agricultural га гектар hectare сільськогосподарського сельскохозяйственного @land
фура фури грузовик грузовой вантажівка вантажний truck lorry trucks lorries
завод цех виробництво виробничий производство производственный промбаза промзона production manufacturing factory plant industrial
дитина немовля младенец infant toddler школяр школьник діти дітьми дітям детьми детям дитячий маленька_дитина маленький_ребенок маленькі_діти маленькие_дети small_child small_children ребенок дети детский маля малюк children kids child baby !без_дітей !без_детей !no_kids !no_children
дитячий_майданчик детская_площадка дитмайданчик playground
сімя сімєю родина семья сімейний родинний семейный family > діти дітьми дети детьми children kids дитячий_майданчик дитмайданчик садок садик школа playground kindergarten school
школа ліцей гімназія лицей гимназия school
садок садочок садик дитсадок детсад kindergarten nursery
університет университет інститут институт академія university institute college campus
студент студентка student
лікар врач медик лікарня больница поліклініка поликлиника doctor hospital
супермаркет продукти продукты supermarket grocery groceries > магазин атб сільпо shop
сусід сусіди сусідів сосед соседи соседей neighbour neighbours neighbor neighbors
трц торговий_центр торговый_центр ~mall shopping_centre
велосипед bike bicycle
церква церковь храм church
тварина животное улюбленець питомец pet pets animals !без_тварин !без_животных !тварин_немає !no_pets !no_animals
кіт кот кішка кошка кошеня котик cat kitten > тварина животное pet !без_тварин !без_животных !no_pets !no_animals
собака песик пес цуценя щенок dog puppy > тварина животное pet !без_тварин !без_животных !no_pets !no_animals !собаки_ні
без_тварин без_животных no_pets no_animals
жінка женщина дівчина дівчата дівчат девушка woman girl female
чоловік мужчина хлопець парень парня man ~male
велика_родина велика_сімя большая_семья багатодітна багатодітний многодетный large_family big_family > @rooms3 @rooms4 @rooms5 діти дітьми дети children
дві_родини дві_сімї две_семьи two_families > два_будинки два_дома two_houses дві_квартири две_квартиры
одна_людина один_человек одного_человека single_person one_person > студія студия studio @rooms1
пара подружжя супруги молодята couple
військовий военный солдат зсу military soldier
переселенець эвакуация евакуація переселенцы впо біженець беженец refugee displaced
іноземець иностранец foreigner foreigners expat
дипломат посольство diplomat diplomatic embassy embassies
українець украинец ukrainian
робітник рабочий рабочих заробітчани бригада workers crew
компанія компания гостей гости guests group
вечірка вечеринка святкування відсвяткувати отпраздновать день_народження дня_народження день_рождения дня_рождения новий_рік новый_год party parties celebration
турист туристи туристы tourist
приватний частный private
їжа еда доставка delivery food dark_kitchen > кухня kitchen кафе
не_курить не_курити без_паління non_smoking non_smokers некурців некурящих
курити курить куріння smoking smokers
пустять пустят пускаємо беремо можна можно дозволено разрешено раді welcome allowed friendly considered
жити жить пожити пожить проживання проживание ~live ~living stay > оренда аренда здам сдам rent @rent @daily_rent
половина half півбудинку полдома частина_будинку часть_дома пів_будинку полдуплекс semi_detached half_of_house
ринок рынок базар ярмарка market
іноземна_мова англійською english_speaking speak_english > english
прибирання уборка клінінг cleaning
грн гривень гривня гривны uah hrn hryvnia
дол доларів долларов доллар долл usd dollar
євро евро eur euro
тисяч тысяч тис тыс thousand
вулиця вул улица ул street str
проспект просп пр_т avenue ave
бульвар бул boulevard blvd
площа площадь square
провулок переулок lane
французький французский french
грецька греческая greek
італійська итальянская italian
польська польская polish
німецька немецкая german
єврейська еврейская jewish
незалежності независимости independence
свободи свободы freedom liberty
перемоги победы victory
соборна соборная cathedral
молодіжна молодежная youth
шкільна школьная
лісова лесная
польова полевая
вокзальна вокзальная
залізнична железнодорожная
університетська университетская
театр театральна театральная theatre theater opera опера
героїв героев heroes
старе_місто старый_город old_town old_city
однокімнатна однокомнатная > @rooms1
двокімнатна двухкомнатная > @rooms2
трикімнатна трехкомнатная > @rooms3
чотирикімнатна четырехкомнатная > @rooms4
пятикімнатна пятикомнатная > @rooms5
`
  .trim()
  .split('\n');
