"""People's names from several scripts and the Latin form of their accounts."""

from typing import NamedTuple


class Name(NamedTuple):
    """A name as its bearer writes it and as a sAMAccountName spells it."""

    written: str
    latin: str


class NameSet(NamedTuple):
    """Given and family names that belong together."""

    given: tuple[Name, ...]
    family: tuple[Name, ...]
    # Directories of English-speaking companies are often kept as "Family, Given", which needs escaping in a DN.
    family_first_with_comma: bool = False


def _names(text: str) -> tuple[Name, ...]:
    """``written/latin`` pairs; a name already in ASCII stands alone."""
    pairs = (item.strip().partition("/") for item in text.split(";"))
    return tuple(Name(written, latin or written.lower()) for written, _, latin in pairs)


ENGLISH = NameSet(
    _names("Ada;Alan;Grace;Katherine;Dorothy;Edsger;Barbara;Margaret;Siobhán/siobhan;Seán/sean;Zoë/zoe;D'Arcy/darcy"),
    _names(
        "Lovelace;Turing;Hopper;Johnson;Vaughan;O'Brien/obrien;O'Neill/oneill;Smith-Jones/smithjones;"
        "MacDonald/macdonald;Lamarr;Babbage;Ní Dhomhnaill/nidhomhnaill;Hamilton;D'Angelo/dangelo"
    ),
    family_first_with_comma=True,
)
CENTRAL_EUROPEAN = NameSet(
    _names(
        "Jürgen/juergen;Änne/aenne;Björn/bjoern;Łukasz/lukasz;Zofia;Jiří/jiri;Žaneta/zaneta;Gyöngyi/gyongyi;"
        "Ørjan/orjan;Åsa/asa;Đorđe/dorde;İpek/ipek;Þórunn/thorunn"
    ),
    _names(
        "Müller/mueller;Groß/gross;Weiß/weiss;Wiśniewski/wisniewski;Żółć/zolc;Dvořák/dvorak;Nováková/novakova;"
        "Szőke/szoke;Ångström/angstrom;Sørensen/sorensen;Kovačević/kovacevic;Yıldız/yildiz;Guðmundsdóttir/gudmundsdottir"
    ),
)
ROMANCE = NameSet(
    _names(
        "João/joao;Conceição/conceicao;Inês/ines;André/andre;Françoise/francoise;Núria/nuria;Iñaki/inaki;"
        "Chloé/chloe;Simão/simao;Cătălina/catalina;Benoît/benoit;Rosângela/rosangela"
    ),
    _names(
        "Gonçalves/goncalves;Magalhães/magalhaes;Muñoz/munoz;Peña/pena;Lefèvre/lefevre;de la Cruz/delacruz;"
        "L'Écuyer/lecuyer;Brandão/brandao;Ibáñez/ibanez;Ștefănescu/stefanescu;Araújo/araujo;Dell'Acqua/dellacqua"
    ),
)
GREEK = NameSet(
    _names(
        "Ελένη/eleni;Γιώργος/giorgos;Κωνσταντίνος/konstantinos;Αικατερίνη/aikaterini;Δημήτρης/dimitris;"
        "Σοφία/sofia;Νίκος/nikos;Ιωάννα/ioanna;Αλέξανδρος/alexandros;Χρυσούλα/chrysoula"
    ),
    _names(
        "Παπαδόπουλος/papadopoulos;Νικολάου/nikolaou;Οικονόμου/oikonomou;Βασιλείου/vasileiou;Γεωργίου/georgiou;"
        "Αντωνίου/antoniou;Καραγιάννης/karagiannis;Μακρής/makris;Χατζηδάκης/chatzidakis;Ζαφειρίου/zafeiriou"
    ),
)
CYRILLIC = NameSet(
    _names(
        "Олена/olena;Тарас/taras;Ганна/hanna;Святослав/sviatoslav;Ївга/yivha;Катерина/kateryna;"
        "Борис/borys;Юлія/yuliia;Милош/milos;Цветелина/tsvetelina;Алёна/alyona;Андрій/andrii"
    ),
    _names(
        "Шевченко/shevchenko;Коваленко/kovalenko;Бойко/boiko;Ткачук/tkachuk;Ґалаґан/galagan;Лисенко/lysenko;"
        "Петровић/petrovic;Димитрова/dimitrova;Щербак/shcherbak;В'юник/viunyk;Мельник/melnyk;Іванчук/ivanchuk"
    ),
)
ARABIC = NameSet(
    _names("محمد/mohammed;فاطمة/fatima;يوسف/youssef;مريم/maryam;عبد الله/abdullah;ليلى/layla;خالد/khalid;نور/nour"),
    _names(
        "الفاسي/alfasi;بن علي/benali;الخطيب/alkhatib;حداد/haddad;المنصوري/almansouri;النجار/alnajjar;"
        "الزهراني/alzahrani;عثمان/othman"
    ),
)
HEBREW = NameSet(
    _names("נועה/noa;יונתן/yonatan;תמר/tamar;אברהם/avraham;שירה/shira;דוד/david"),
    _names("כהן/cohen;לוי/levi;מזרחי/mizrahi;פרידמן/friedman;בן־דוד/bendavid;שפירא/shapira"),
)
CHINESE_JAPANESE_KOREAN = NameSet(
    _names(
        "太郎/taro;花子/hanako;さくら/sakura;健/ken;伟/wei;芳/fang;秀英/xiuying;민준/minjun;서연/seoyeon;美咲/misaki"
    ),
    _names(
        "田中/tanaka;佐藤/sato;鈴木/suzuki;渡辺/watanabe;王/wang;李/li;張/zhang;歐陽/ouyang;김/kim;박/park;𠮷田/yoshida"
    ),
)
DEVANAGARI = NameSet(
    _names("अदिति/aditi;राहुल/rahul;प्रिया/priya;विक्रम/vikram;लक्ष्मी/lakshmi;अर्जुन/arjun"),
    _names("शर्मा/sharma;पाटील/patil;गुप्ता/gupta;सिंह/singh;कुलकर्णी/kulkarni;मिश्रा/mishra"),
)
ALL = (
    ENGLISH,
    CENTRAL_EUROPEAN,
    ROMANCE,
    GREEK,
    CYRILLIC,
    ARABIC,
    HEBREW,
    CHINESE_JAPANESE_KOREAN,
    DEVANAGARI,
)
