"""Names of columns of persons, in the ten most used languages and three more.

English, Chinese, Hindi, Spanish, Arabic, French, Bengali, Portuguese, Russian and Urdu; German,
Japanese and Korean.
"""

from __future__ import annotations

import re

from dpicl_rag.normal_forms import normal_form

_PERSONS = frozenset(
    normal_form(
        "NFC",
        """
    account agent applicant assignee attendee author buyer caller candidate cardholder
    citizen claimant client contact coworker creator customer debtor defendant donor
    e_mail email employee from guest insured learner lodger member mail mrn msisdn name
    participant passenger patient payer person persona phone player policyholder pupil
    recipient renter reporter requester requestor resident respondent sender seller speaker staff
    student subject_id subscriber subject_no subject_nr subject_code supplier telephone tenant
    user username userid visitor voter worker first_name last_name full_name given_name family_name
    surname nickname login ssn mobile nhs nino medical_record
    assigned_to created_by reported_by submitted_by modified_by updated_by opened_by closed_by

    kunde kunden kundin kundinnen patient patienten patientin mieter mieterin mietern mitarbeiter
    mitarbeiterin nutzer nutzerin benutzer mitglied mitglieder absender empfänger bewohner bewerber
    bürger klient klienten klientin schüler schülerin student studenten teilnehmer teilnehmerin
    versicherte versicherten versicherter vorname nachname ansprechpartner melder bearbeiter
    auftraggeber gast gäste person personen steuerid

    cliente clienta clientes paciente pacientes usuario usuaria usuarios empleado empleada alumno
    alumna estudiante inquilino inquilina arrendatario remitente destinatario solicitante miembro
    socio titular trabajador persona nombre apellido apellidos correo dni nie asegurado huésped

    client cliente clients patient patiente patients utilisateur utilisatrice locataire salarié
    salariée employé employée élève étudiant étudiante membre adhérent expéditeur destinataire
    demandeur assuré assurée abonné personne nom prénom auteur courriel rapporteur

    paciente usuário usuária funcionário funcionária empregado aluno aluna inquilino locatário
    remetente destinatário solicitante membro sócio pessoa nome sobrenome segurado hóspede cpf

    клиент клиента клиенты пациент пациента пациенты пользователь пользователя сотрудник сотрудника
    арендатор жилец ученик студент студента отправитель получатель заявитель автор участник абонент
    покупатель заказчик имя фамилия отчество фио телефон почта инн снилс

    客户 客戶 顾客 顧客 患者 病人 病患 用户 用戶 姓名 名字 学生 學生 员工 員工 租客 租户 房客
    会员 會員 成员 联系人 聯絡人 发件人 收件人 申请人 身份证 手机 电话 乘客 投保人
    氏名 名前 社員 従業員 利用者 ユーザー ユーザ 会員 生徒 入居者 借主 担当者 差出人 申請者
    お客様 受診者 환자 고객 사용자 회원 직원 학생 이름 성명 세입자 임차인 담당자

    रोगी मरीज मरीज़ ग्राहक नाम उपयोगकर्ता छात्र कर्मचारी सदस्य किरायेदार व्यक्ति
    রোগী গ্রাহক নাম ব্যবহারকারী ছাত্র কর্মচারী সদস্য ভাড়াটিয়া ব্যক্তি
    مريض المريض عميل العميل زبون الزبون اسم الاسم مستخدم المستخدم موظف الموظف طالب الطالب مستأجر
    المستأجر عضو العضو شخص
    مریض گاہک صارف نام ملازم طالب_علم کرایہ_دار رکن
    """,
    ).split()
)
# What stands before or behind the noun, as in customer_id, "Nom du client" and Kundennummer.
_KEY_WORDS = frozenset(
    """
    id ids no nr num number key code ref reference uuid guid name names mail email address
    identifier nummer kennung name kürzel número numero código codigo nombre correo
    identificador referencia
    numéro identifiant référence nom nome номер код имя идентификатор фио
    编号 編號 号码 號碼 号 姓名 名称 名 番号 氏名 コード 번호 명 아이디
    संख्या क्रमांक नाम নম্বর নাম আইডি رقم اسم معرف نمبر نام
    del de du da do di der des la le el of the का की के
    """.split()  # noqa: SIM905 - read as a list of words
)
# Behind a noun without a gap.
_ENDINGS = tuple(
    sorted(
        """
        nummer name namen id nr kennung nummern code mail adresse
        编号 編號 号码 號碼 号 姓名 名称 名 番号 氏名 コード 번호 명 아이디 id
        """.split(),  # noqa: SIM905 - read as a list of words
        key=len,
        reverse=True,
    )
)
_BREAKS = re.compile(r"[\s_\-./\\:;,()\[\]#'’0-9]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHORTEST = 2  # of a noun before an ending


def is_person(column: str) -> bool:
    """Test for the name of a column of persons, as ``customer`` and ``User ID`` look like."""
    spaced = _HUMP.sub(" ", normal_form("NFC", column))
    words = [word for word in _BREAKS.split(spaced.casefold()) if word]
    while words:
        if "_".join(words) in _PERSONS or (len(words) == 1 and _is_compound(words[0])):
            return True
        if len(words) > 1 and words[-1] in _KEY_WORDS:
            words.pop()
        elif len(words) > 1 and words[0] in _KEY_WORDS:
            words.pop(0)
        else:
            return False
    return False


def _is_compound(word: str) -> bool:
    """Test for a noun of persons with what it is the key of, in one word."""
    nouns = (word.removesuffix(end) for end in _ENDINGS if word.endswith(end))
    return any(len(noun) >= _SHORTEST and noun in _PERSONS for noun in nouns)
